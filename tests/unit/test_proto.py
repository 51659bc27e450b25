"""The generated messages: made from the .proto files beside them, complete, and private."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from orcstream._proto import orc_proto as pb
from tests.reference import java_orc

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_from_these_sources(generate: ModuleType) -> None:
    """Changing a .proto file without `make proto` fails here, always."""
    assert generate.source_digest() == pb.SOURCE_SHA256


def test_regenerating_changes_nothing(generate: ModuleType) -> None:
    """Only where `make proto` has made its virtual environment: making one takes a minute and the network.

    Without it the digest above, and the comparison with the source's text below, hold the files together.
    """
    if not generate.PYTHON.exists():
        pytest.skip("needs the virtual environment that `make proto` makes")
    texts = generate.render(*generate.compile_sources())
    assert [target.read_text(encoding="utf-8") for target in generate.TARGETS] == list(texts)


def test_descriptors_say_what_the_source_says() -> None:
    """Reads the source with a few regular expressions, so this needs no protoc."""
    source = (ROOT / "proto" / "orc_proto.proto").read_text(encoding="utf-8")
    source = re.sub(r"//.*", "", source)
    fields = set(re.findall(r"(?:optional|repeated)\s+(\S+)\s+(\w+)\s*=\s*(\d+)", source))
    values = set(re.findall(r"^\s*([A-Z][A-Z0-9_]*) = (\d+);", source, re.MULTILINE))
    file = descriptor_pb2.FileDescriptorProto.FromString(pb.DESCRIPTORS[0])
    names = {
        number: name.removeprefix("TYPE_").lower()
        for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
    }
    built = {
        (
            field.type_name.rpartition(".")[2] or names[field.type],
            field.name,
            str(field.number),
        )
        for message in file.message_type
        for field in message.field
    }
    assert built == fields
    enums = [*file.enum_type, *(enum for message in file.message_type for enum in message.enum_type)]
    assert {(value.name, str(value.number)) for enum in enums for value in enum.value} == values


def test_messages_are_those_of_orc_java(java: None) -> None:
    """Every message, field and enum value of the reference implementation, and nothing else."""
    reference = java_orc._gateway().jvm.org.apache.orc.OrcProto.getDescriptor().toProto().toByteArray()
    theirs = listing(descriptor_pb2.FileDescriptorProto.FromString(bytes(reference)))
    ours = listing(descriptor_pb2.FileDescriptorProto.FromString(pb.DESCRIPTORS[0]))
    assert len(theirs) > 150
    assert ours == theirs


def listing(file: descriptor_pb2.FileDescriptorProto) -> set[tuple[object, ...]]:
    field_type = descriptor_pb2.FieldDescriptorProto
    found: set[tuple[object, ...]] = set()
    for message in file.message_type:
        for field in message.field:
            # Ours has the numbers of enums, to keep those of later formats.
            type_ = field_type.TYPE_UINT32 if field.type == field_type.TYPE_ENUM else field.type
            of = field.type_name.rpartition(".")[2] if type_ == field_type.TYPE_MESSAGE else ""
            repeated = field.label == field_type.LABEL_REPEATED
            found.add((message.name, field.name, field.number, type_, of, repeated, field.options.packed))
    enums = [("", enum) for enum in file.enum_type]
    enums += [(message.name, enum) for message in file.message_type for enum in message.enum_type]
    for owner, enum in enums:
        found |= {(owner, enum.name, value.name, value.number) for value in enum.value}
    return found


def test_views_read_the_same_bytes() -> None:
    """A view differs from its message in the statistics only, and those hold the message's bytes."""
    views = descriptor_pb2.FileDescriptorProto.FromString(pb.DESCRIPTORS[1])
    messages = {
        message.name: {field.number: field for field in message.field}
        for message in descriptor_pb2.FileDescriptorProto.FromString(pb.DESCRIPTORS[0]).message_type
    }
    for view in views.message_type:
        numbers = {field.number for field in view.field}
        assert numbers == set(messages[view.name])
        for field in view.field:
            same = messages[view.name][field.number]
            assert (field.name, field.label) == (same.name, same.label)
            if field.name == "statistics":
                assert field.type == field.TYPE_BYTES
                assert same.type_name == ".orc.proto.ColumnStatistics"
            elif field.name != "entry":
                assert (field.type, field.type_name) == (same.type, same.type_name)


def test_messages_are_private() -> None:
    """Another package may register its own orc_proto in the default pool."""
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("orc.proto.Footer")
