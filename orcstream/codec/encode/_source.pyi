from orcstream.codec.vectors.column import Field, Vector

class SourceTree:
    def __init__(self, field: Field, vector: Vector) -> None: ...
