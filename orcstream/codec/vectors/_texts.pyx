"""Kernels that cut, pad and gather texts.

They return Arrow offsets and bytes; a mask has one byte a row: rows with 0 become empty texts. Texts longer than 31
bits together raise OverflowError before they are written. All loops run without the GIL.
"""

from libc.stdint cimport INT32_MAX, int32_t, uint8_t
from libc.string cimport memcpy, memset

from orcstream._buffer cimport Buffer, allocate


cdef Py_ssize_t cut(const uint8_t* text, Py_ssize_t size, Py_ssize_t most, bint trim, Py_ssize_t* have) noexcept nogil:
    """Bytes of the first `most` characters, without the blanks at their end where asked; `have` counts characters.

    A character is a byte that continues none, so bytes that are no UTF-8 do no harm.
    """
    cdef Py_ssize_t at = 0, seen = 0
    if size <= most and not trim:
        have[0] = size  # only for padding, which is with `trim`
        return size
    while at < size:
        if (text[at] & 0xC0) != 0x80:
            if seen == most:
                break
            seen += 1
        at += 1
    while trim and at and text[at - 1] == c" ":
        at -= 1
        seen -= 1
    have[0] = seen
    return at


def cut_texts(
    const int32_t[::1] offsets,
    const uint8_t[::1] data,
    const uint8_t[::1] mask,
    Py_ssize_t most,
    bint trim,
    Py_ssize_t pad,
):
    """Texts of at most `most` characters (any where it is negative), blanks at the end trimmed, then padded to `pad`.

    Padding needs `trim`. None where nothing changes.
    """
    cdef Py_ssize_t row, count = check_texts(offsets, data, mask.shape[0]), total = 0, size, kept, have = 0
    cdef Buffer out_offsets = allocate((count + 1) * 4)
    cdef int32_t* ends = <int32_t*> out_offsets.ptr
    cdef Buffer out
    cdef const uint8_t* text = bytes_of(data)
    cdef bint same = True
    if most < 0:
        most = INT32_MAX
    if pad and not trim:
        raise ValueError("what is padded is trimmed first")
    ends[0] = 0
    with nogil:
        for row in range(count):
            size = offsets[row + 1] - offsets[row]
            kept = size
            if mask[row]:
                kept = cut(text + offsets[row], size, most, trim, &have)
                if have < pad:
                    kept += pad - have
            same = same and kept == size
            total += kept
            if total > INT32_MAX:
                break
            ends[row + 1] = <int32_t> total
    if same:
        return None
    out = room_for(total)
    with nogil:
        for row in range(count):
            size = offsets[row + 1] - offsets[row]
            kept = ends[row + 1] - ends[row]
            if mask[row]:
                size = cut(text + offsets[row], size, most, trim, &have)
            if size:
                memcpy(out.ptr + ends[row], text + offsets[row], size)
            if kept > size:
                memset(out.ptr + ends[row] + size, c" ", kept - size)
    return out_offsets, out


def gather_texts(
    const int32_t[::1] indexes, const uint8_t[::1] mask, const int32_t[::1] offsets, const uint8_t[::1] data
):
    """Row by row the dictionary entry that the row's index names."""
    cdef Py_ssize_t row, count = mask.shape[0], total = 0, size
    cdef Py_ssize_t entries = check_texts(offsets, data, offsets.shape[0] - 1)
    cdef Buffer out_offsets = allocate((count + 1) * 4)
    cdef int32_t* ends = <int32_t*> out_offsets.ptr
    cdef Buffer out
    cdef const uint8_t* text = bytes_of(data)
    if indexes.shape[0] != count:
        raise ValueError("indexes and mask differ in length")
    ends[0] = 0
    with nogil:
        for row in range(count):
            if mask[row]:
                if indexes[row] < 0 or indexes[row] >= entries:
                    with gil:
                        raise ValueError("an index beyond its dictionary")
                total += offsets[indexes[row] + 1] - offsets[indexes[row]]
                if total > INT32_MAX:
                    break
            ends[row + 1] = <int32_t> total
    out = room_for(total)
    with nogil:
        for row in range(count):
            size = ends[row + 1] - ends[row]
            if size:
                memcpy(out.ptr + ends[row], text + offsets[indexes[row]], size)
    return out_offsets, out
