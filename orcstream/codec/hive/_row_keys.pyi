from orcstream._buffer import Buffer

# `object` stands for any buffer: mypy knows numpy's arrays as buffers from Python 3.12 on only.

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
