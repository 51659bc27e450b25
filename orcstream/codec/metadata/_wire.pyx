"""Kernels that walk serialised protobuf messages without parsing them: they count, cut, and read row indexes.

Knows the wire format. Must not know what fields mean: callers say which of them are messages. A parsed message
takes up to 50 times its bytes, and nothing of it can be stopped half way; so what a message holds is counted here
first, without the GIL and without memory. Bytes that are no message are `ValueError`.
Specification: https://protobuf.dev/programming-guides/encoding/
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int64_t, uint8_t, uint64_t

from orcstream._buffer cimport Buffer, allocate
from orcstream.codec._bits cimport read_varint

cdef enum:
    # Fields of a message that callers can name, with 0, which none has.
    FIELDS = 16
    MOST_MESSAGES = 16
    # As deep as protobuf follows groups and messages.
    MOST_DEPTH = 100
    MOST_NUMBER = 0x1FFFFFFF
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    GROUP = 3
    END_GROUP = 4
    FIXED32 = 5
    # What a table says of a field that is no message.
    LEAF = -1
    PACKED = -2
    POSITIONS = 1
    STATISTICS = 2


cdef struct Field:
    uint64_t number
    int wire_type
    # A number; or where what is in the field lies.
    uint64_t value
    const uint8_t* start
    const uint8_t* stop


cdef const uint8_t* next_field(const uint8_t* at, const uint8_t* stop, Field* field) noexcept nogil:
    """Where the next field ends, NULL where there is none; a group is passed over whole."""
    cdef int depth = 0, size
    cdef uint64_t tag = 0, length = 0
    while at < stop:
        size = read_varint(at, stop, &tag)
        if size <= 0 or tag >> 3 == 0 or tag >> 3 > MOST_NUMBER:
            return NULL
        at += size
        if depth == 0:
            field.number = tag >> 3
            field.wire_type = tag & 7
        field.start = at
        if tag & 7 == VARINT:
            size = read_varint(at, stop, &field.value)
            if size <= 0:
                return NULL
            at += size
        elif tag & 7 == BYTES:
            size = read_varint(at, stop, &length)
            if size <= 0 or length > <uint64_t> (stop - at - size):
                return NULL
            field.start = at + size
            at += size + length
        elif tag & 7 == FIXED64 or tag & 7 == FIXED32:
            length = 8 if tag & 7 == FIXED64 else 4
            if <uint64_t> (stop - at) < length:
                return NULL
            at += length
        elif tag & 7 == GROUP:
            depth += 1
            if depth > MOST_DEPTH:
                return NULL
        elif tag & 7 == END_GROUP and depth:
            depth -= 1
        else:
            return NULL
        if depth == 0:
            field.stop = at
            return at
    return NULL


cdef int64_t count_numbers(const uint8_t* at, const uint8_t* stop) noexcept nogil:
    """How many varints a packed field has: each ends with a byte below 128."""
    cdef int64_t count = 0
    while at < stop:
        count += at[0] < 0x80
        at += 1
    return count


# --- counting --------------------------------------------------------------------------------------


cdef const uint8_t* count_message(
    const uint8_t* at, const uint8_t* stop, const int8_t* table, int message, int depth, int64_t* counts
) noexcept nogil:
    """Where it went wrong, NULL where it did not."""
    cdef Field field
    cdef const uint8_t* end
    cdef const uint8_t* bad
    cdef int child
    counts[2 * message] += 1
    while at < stop:
        end = next_field(at, stop, &field)
        if end == NULL:
            return at
        counts[2 * message + 1] += 1
        if field.wire_type == BYTES and field.number < FIELDS:
            child = table[message * FIELDS + field.number]
            if child == PACKED:
                counts[2 * message + 1] += count_numbers(field.start, field.stop)
            elif child >= 0 and depth < MOST_DEPTH:
                bad = count_message(field.start, field.stop, table, child, depth + 1, counts)
                if bad != NULL:
                    return bad
        at = end
    return NULL


def count_parts(const uint8_t[::1] data, const int8_t[:, ::1] table):
    """For each kind of message: how many there are, and how many fields and packed numbers in all of them.

    `data` is a message of kind 0. ``table[kind, number]`` is the kind of message in a field, -1 where it is none,
    -2 where it is packed numbers.
    """
    cdef int64_t[2 * MOST_MESSAGES] counts
    cdef const uint8_t* bad
    cdef const uint8_t* start
    cdef int kind, kinds = <int> table.shape[0]
    cdef Py_ssize_t field
    if not 0 < kinds <= MOST_MESSAGES or table.shape[1] != FIELDS:
        raise ValueError("no table of messages")
    for kind in range(kinds):
        counts[2 * kind] = counts[2 * kind + 1] = 0
        for field in range(FIELDS):
            if not PACKED <= table[kind, field] < kinds:
                raise ValueError("no table of messages")
    if data.shape[0] == 0:
        counts[0] = 1
    else:
        start = &data[0]
        with nogil:
            bad = count_message(start, start + data.shape[0], &table[0, 0], 0, 0, counts)
        if bad != NULL:
            raise ValueError(f"no protobuf message at byte {bad - start} of {data.shape[0]}")
    return [(counts[2 * kind], counts[2 * kind + 1]) for kind in range(kinds)]


# --- cutting ---------------------------------------------------------------------------------------


def find_field(const uint8_t[::1] data, int number, Py_ssize_t most):
    """Where the length-delimited fields `number` lie: starts and stops in turn, and how many there are of others.

    There are `most` at most; where the message has more, one more than that.
    """
    cdef Field field
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef const uint8_t* stop
    cdef const uint8_t* start
    cdef Py_ssize_t found = 0, others = 0, index
    cdef Buffer places
    cdef int64_t* out
    if data.shape[0] == 0:
        return allocate(0), 0
    start = at = &data[0]
    stop = start + data.shape[0]
    with nogil:
        while at < stop and found <= most:
            end = next_field(at, stop, &field)
            if end == NULL:
                break
            if field.wire_type == BYTES and field.number == <uint64_t> number:
                found += 1
            else:
                others += 1
            at = end
    if at < stop and found <= most:
        raise ValueError(f"no field at byte {at - start} of {data.shape[0]}")
    places = allocate(found * 16)
    out = <int64_t*> places.ptr
    index = 0
    with nogil:
        at = start
        while index < found:
            at = next_field(at, stop, &field)
            if field.wire_type == BYTES and field.number == <uint64_t> number:
                out[2 * index] = field.start - start
                out[2 * index + 1] = field.stop - start
                index += 1
    return places, others


# --- row indexes -----------------------------------------------------------------------------------


cdef bint count_entry(const uint8_t* at, const uint8_t* stop, int64_t* positions) noexcept nogil:
    """Adds the positions of an entry up; False where it is no message."""
    cdef Field field
    while at < stop:
        at = next_field(at, stop, &field)
        if at == NULL:
            return False
        if field.number == POSITIONS:
            if field.wire_type == BYTES:
                if field.stop > field.start and (field.stop - 1)[0] >= 0x80:
                    return False
                positions[0] += count_numbers(field.start, field.stop)
            elif field.wire_type == VARINT:
                positions[0] += 1
    return True


cdef const uint64_t* fill_entry(
    const uint8_t* at, const uint8_t* stop, uint64_t* out, Field* statistics
) noexcept nogil:
    """Behind the last position; NULL where one is no number. `statistics` are those that come last."""
    cdef Field field
    cdef int size
    statistics.start = statistics.stop = NULL
    while at < stop:
        at = next_field(at, stop, &field)
        if field.number == POSITIONS and field.wire_type == VARINT:
            out[0] = field.value
            out += 1
        elif field.number == POSITIONS and field.wire_type == BYTES:
            while field.start < field.stop:
                size = read_varint(field.start, field.stop, out)
                if size <= 0:
                    return NULL
                field.start += size
                out += 1
        elif field.number == STATISTICS and field.wire_type == BYTES:
            statistics[0] = field
    return out


def count_row_index(const uint8_t[::1] data):
    """How many entries a row index has, how many positions, and how many has the one with the most."""
    cdef Field field
    cdef const uint8_t* start
    cdef const uint8_t* at
    cdef const uint8_t* stop
    cdef const uint8_t* end
    cdef int64_t entries = 0, positions = 0, before = 0, most = 0
    if data.shape[0] == 0:
        return 0, 0, 0
    start = at = &data[0]
    stop = start + data.shape[0]
    with nogil:
        while at < stop:
            end = next_field(at, stop, &field)
            if end == NULL:
                break
            if field.number == 1 and field.wire_type == BYTES:
                entries += 1
                before = positions
                if not count_entry(field.start, field.stop, &positions):
                    break
                most = max(most, positions - before)
            at = end
    if at < stop:
        raise ValueError(f"no entry at byte {at - start} of {data.shape[0]}")
    return entries, positions, most


def read_row_index(const uint8_t[::1] data, uint64_t[::1] positions, int64_t[::1] starts):
    """Fill in the positions, and where those of each entry start; answers the statistics of each as bytes.

    There are as many as `count_row_index` has found, and one start more than entries.
    """
    cdef Py_ssize_t entries = starts.shape[0] - 1
    cdef uint64_t none = 0
    cdef uint64_t* out = &positions[0] if positions.shape[0] else &none  # NULL is for what is no number
    cdef int64_t* first = &starts[0]
    cdef const uint8_t* at = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* stop = at + data.shape[0]
    cdef const uint64_t* end
    cdef Field field, part
    cdef Py_ssize_t entry = 0
    cdef list statistics = []
    if count_row_index(data)[:2] != (entries, positions.shape[0]):
        raise ValueError("a row index of another size")
    first[0] = 0
    while entry < entries:
        at = next_field(at, stop, &field)
        if field.number != 1 or field.wire_type != BYTES:
            continue
        end = fill_entry(field.start, field.stop, out + first[entry], &part)
        if end == NULL:
            raise ValueError("a position is no number")
        entry += 1
        first[entry] = end - out
        statistics.append(
            b"" if part.start == NULL else PyBytes_FromStringAndSize(<char*> part.start, part.stop - part.start)
        )
    return tuple(statistics)
