from orcstream.codec.streams._encode_values import IntegerEncoder
from orcstream.codec.streams._out_stream import OutStream

class IntEncoder(IntegerEncoder):
    def __init__(self, out: OutStream, *, signed: bool, aligned: bool = True) -> None: ...
