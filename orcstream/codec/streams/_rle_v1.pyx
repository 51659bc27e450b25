"""Byte run lengths and integer run length version 1, as resumable kernels without the GIL.

Know bytes and values, nothing else; the contract of a kernel stands in `_bits.pxd`. Specification: "Byte
Run Length Encoding", "Integer Run Length Encoding, version 1".
"""

from libc.stdint cimport int8_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from orcstream.codec._bits cimport BAD_VARINT, FULL, MORE, Cursor, read_varint, unzigzag


cdef int decode_bytes(
    const uint8_t* data, Py_ssize_t size, uint8_t* out, Py_ssize_t count, Cursor* cursor
) noexcept nogil:
    cdef Py_ssize_t at = 0, done = 0, skip = cursor.skip, length, take, body
    cdef bint literal
    cdef int status = FULL
    while done < count:
        if size - at < 2:
            status = MORE
            break
        literal = data[at] >= 0x80
        length = 256 - data[at] if literal else data[at] + 3
        body = length if literal else 1
        if size - at - 1 < body:
            status = MORE
            break
        if skip >= length:
            skip -= length
            at += 1 + body
            continue
        take = min(length - skip, count - done)
        if literal:
            memcpy(out + done, data + at + 1 + skip, take)
        else:
            memset(out + done, data[at + 1], take)
        done += take
        skip += take
        if skip == length:
            skip = 0
            at += 1 + body
    cursor.consumed = at
    cursor.produced = done
    cursor.skip = skip
    return status


cdef int decode_v1(
    const uint8_t* data, Py_ssize_t size, int64_t* out, Py_ssize_t count, bint signed, Cursor* cursor
) noexcept nogil:
    cdef Py_ssize_t at = 0, done = 0, skip = cursor.skip, length, take, index, next_at
    cdef const uint8_t* stop = data + size
    cdef uint64_t value = 0, delta
    cdef int width, status = FULL
    while done < count:
        if at == size:
            status = MORE
            break
        if data[at] < 0x80:
            length = data[at] + 3
            if size - at < 3:
                status = MORE
                break
            delta = <uint64_t> (<int64_t> (<int8_t> data[at + 1]))
            width = read_varint(data + at + 2, stop, &value)
            if width <= 0:
                status = BAD_VARINT if width < 0 else MORE
                break
            next_at = at + 2 + width
            if skip < length:
                if signed:
                    value = <uint64_t> unzigzag(value)
                take = min(length - skip, count - done)
                value += delta * <uint64_t> skip
                for index in range(take):
                    out[done + index] = <int64_t> value
                    value += delta
                done += take
                skip += take
        else:
            length = 256 - data[at]
            next_at = at + 1
            # The run is decoded only when all of it is there, or when the output ends before it does.
            for index in range(length):
                width = read_varint(data + next_at, stop, &value)
                if width <= 0:
                    break
                next_at += width
            else:
                width = 1
            if width < 0:
                status = BAD_VARINT
                break
            if width == 0:
                status = MORE
                break
            if skip < length:
                take = min(length - skip, count - done)
                next_at = at + 1
                for index in range(skip):
                    next_at += read_varint(data + next_at, stop, &value)
                for index in range(take):
                    next_at += read_varint(data + next_at, stop, &value)
                    out[done + index] = unzigzag(value) if signed else <int64_t> value
                done += take
                skip += take
        if skip >= length:
            skip -= length
            at = next_at
    cursor.consumed = at
    cursor.produced = done
    cursor.skip = skip
    return status
