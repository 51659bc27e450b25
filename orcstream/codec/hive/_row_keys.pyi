from orcstream._buffer import Buffer

def are_ascending(write_ids: object, buckets: object, row_ids: object, count: int) -> bool: ...
def find_keys(
    write_ids: object,
    buckets: object,
    row_ids: object,
    count: int,
    known_write_ids: object,
    known_buckets: object,
    known_row_ids: object,
    known_count: int,
) -> Buffer: ...
