"""What statistics and bloom filters prove about a predicate."""
