"""Merging small files, for a stream's writer and for the job `compact`."""
