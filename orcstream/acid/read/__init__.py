"""Reading a transactional table: from files of events to rows."""
