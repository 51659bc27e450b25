"""Requests on their way: scheduling, estimates, parts that are sent."""
