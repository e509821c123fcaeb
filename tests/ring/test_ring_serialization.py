"""Messages of actors as bytes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from message_samples import Arrays, AsPeer, Derived, Everything, Request, Vectors
from some_cases import examples
from tikgen.dtypes import DType
from tikgen.ring.errors import MessageDeserializationError, MessageSerializationError
from tikgen.ring.messages.base import (
    RingKernelMessage,
    deserialize_message,
    message,
)
from tikgen.ring.messages.checks import checker

# Serialization.


def test_a_subclass_keeps_its_fields_when_serialized():
    made = Derived(1.0, 2, ["x"], c="sub", priority=1)
    data = made.serialize()
    for read in (Derived.deserialize, Request.deserialize, deserialize_message):
        assert read(data) == made and type(read(data)) is Derived
    with pytest.raises(MessageDeserializationError, match="message of type"):
        Derived.deserialize(Request(1.0).serialize())
    with pytest.raises(MessageDeserializationError):
        AsPeer.deserialize(data)


def test_types_of_the_same_name_are_not_confused():
    def one() -> type[Any]:
        @message
        class Same:
            x: float

        return Same

    def other() -> type[Any]:
        @message
        class Same:
            x: float

        return Same

    first, second = one(), other()
    made = first(1.0)
    assert type(deserialize_message(made.serialize())) is first
    with pytest.raises(MessageDeserializationError):
        second.deserialize(made.serialize())
    again = one()  # As when a notebook cell runs again.
    assert type(deserialize_message(made.serialize())) is again
    assert type(first.deserialize(made.serialize())) is first


def test_an_unknown_type_is_named_in_the_error():
    code = (
        "import sys; from tikgen.ring.messages.base import message\n"
        "@message\nclass Elsewhere:\n    x: int\n    def twice(self): return self.x * 2\n"
        "assert Elsewhere(2).twice() == 4\n"
        "sys.stdout.buffer.write(Elsewhere(3).serialize())"
    )
    data = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    with pytest.raises(MessageDeserializationError, match="'__main__:Elsewhere' is defined here"):
        deserialize_message(data)


def test_a_custom_tag_is_kept():
    class Tagged(RingKernelMessage, tag="stable/1"):
        x: int

    made = Tagged(1)
    assert b"stable/1" in made.serialize() and deserialize_message(made.serialize()) == made


def test_values_of_every_kind_survive():
    made = Everything(
        n=Derived.deserialize(Derived(1.0).serialize()) and Request(2.0),
        tags={"a", "b"},
        either="text",
        table={"row": [1.0, 2.0]},
        anything={"deep": [1, None, "x"]},
    )
    assert Everything.deserialize(made.serialize()) == made
    assert checker(Everything)(made) is None
    assert len(AsPeer(1.0).serialize()) < 110  # An identifier takes 16 bytes, not 36.


ALL = [member.numpy for member in DType] + [np.dtype(bool)]


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(1,), (7,), (0,), (), (2, 3), (0, 3), (3, 1, 5)])
def test_arrays_are_read_as_views_of_the_bytes(dtype, shape, rng):
    array = rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
    data = Arrays(array).serialize()
    read = Arrays.deserialize(data).x
    assert read.dtype == dtype and read.shape == shape and not read.flags.writeable
    np.testing.assert_array_equal(read, array)
    if array.size:
        assert np.shares_memory(read, np.frombuffer(data, np.uint8))


def test_arrays_of_other_layouts(rng):
    base = rng.standard_normal((13, 11)).astype(np.float32)
    for array in (base[::2, ::3], base.T, base[:, 4], base[::-1, 0], base.astype(">f4")):
        read = Arrays.deserialize(Arrays(array).serialize()).x
        np.testing.assert_array_equal(read, array)
        assert read.dtype == np.float32
    one = Everything(anything=base, array=base)
    read = Everything.deserialize(one.serialize())
    np.testing.assert_array_equal(read.anything, base)
    assert isinstance(read.array, np.ndarray)
    assert Everything.deserialize(Everything(anything=np.int16(3)).serialize()).anything == 3


@pytest.mark.parametrize(
    "value",
    [np.array([object()]), np.zeros(2, complex), np.array(["a"]), np.zeros(1, "M8[s]"), object(),
     np.ma.masked_array([1.0, 2.0], [1, 0]), np.ma.masked],
    ids=["object", "complex", "str", "datetime", "no array", "masked array", "masked"],
)  # fmt: skip
def test_values_that_messagepack_cannot_hold_are_refused(value):
    with pytest.raises(MessageSerializationError, match="Everything cannot be written"):
        Everything(anything=value).serialize()
    with pytest.raises(MessageSerializationError):
        Everything(anything=2**70).serialize()
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(MessageSerializationError):
        Everything(anything=deep).serialize()


def test_arrays_of_another_dtype_than_annotated_are_refused():
    good = Arrays(np.zeros(3), np.zeros(3, np.float32))
    assert Arrays.deserialize(good.serialize()).y.dtype == np.float32
    for wrong in (np.zeros(3), [1.0], "a"):
        made = Arrays(np.zeros(3), wrong)  # type: ignore[arg-type]
        assert "field 'y' takes array of float32 | None" in str(checker(Arrays)(made))
        with pytest.raises(MessageDeserializationError):
            Arrays.deserialize(made.serialize())


@pytest.mark.parametrize("made", [Derived(1.5, 3, ["a"]), Arrays(np.arange(6.0).reshape(2, 3))])
def test_truncated_bytes_are_refused(made):
    data = made.serialize()
    for length in range(len(data)):
        with pytest.raises(MessageDeserializationError):
            type(made).deserialize(data[:length])
    with pytest.raises(MessageDeserializationError):
        type(made).deserialize(data + b"\0")


@pytest.mark.parametrize("name", ["a", "b", "names", "message_id", "priority", "correlation_id"])
def test_missing_fields_are_refused(name):
    fields = msgspec.msgpack.decode(Request(1.0).serialize())
    for order in (1, -1):
        shuffled = dict(list(fields.items())[::order])
        assert Request.deserialize(msgspec.msgpack.encode(shuffled)).a == 1.0
        del shuffled[name]
        with pytest.raises(MessageDeserializationError, match=f"missing: {name}"):
            Request.deserialize(msgspec.msgpack.encode(shuffled))
        other = fields | {"another": 1}
        with pytest.raises(MessageDeserializationError, match="another"):
            Request.deserialize(msgspec.msgpack.encode(other))
    for wrong in (object, [{}], {"x": 1}):
        value = "?" if wrong is object else wrong
        if name != "correlation_id" or value != "?":
            bad = msgspec.msgpack.encode(fields | {name: value})
            with pytest.raises(MessageDeserializationError):
                Request.deserialize(bad)


_anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary() | st.builds(msgspec.msgpack.Ext, st.integers(-128, 127), st.binary()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=examples(300, 100), deadline=None)
@given(st.binary() | _anything.map(msgspec.msgpack.encode), st.data())
def test_any_bytes_give_a_message_or_the_error(data, draw):
    for kind in (Derived, Arrays, RingKernelMessage):
        with pytest.raises(MessageDeserializationError):
            kind.deserialize(data)
    whole = bytearray(Arrays(np.arange(4.0).reshape(2, 2)).serialize())
    whole[draw.draw(st.integers(0, len(whole) - 1))] = draw.draw(st.integers(0, 255))
    try:
        read = Arrays.deserialize(bytes(whole))
    except MessageDeserializationError:
        return
    assert type(read) is Arrays and checker(Arrays)(read) is None


@settings(max_examples=examples(150, 50), deadline=None)
@given(st.sampled_from(["x", "y", "v", "k", "message_id", "priority"]), _anything)
def test_a_field_of_another_type_is_refused(name, value):
    if value is None:
        return
    for made in (Arrays(np.zeros(3)), Vectors([1.0, 2, 3])):
        fields = msgspec.msgpack.decode(
            made.serialize(), ext_hook=lambda code, data: msgspec.msgpack.Ext(code, data)
        )
        if name not in fields:
            continue
        data = msgspec.msgpack.encode(fields | {name: value})
        try:
            read = type(made).deserialize(data)
        except MessageDeserializationError:
            continue
        assert checker(type(made))(read) is None


def test_vectors_are_checked_when_deserialized(rng):
    array = rng.standard_normal(3).astype(np.float32)
    np.testing.assert_array_equal(Vectors.deserialize(Vectors(array).serialize()).v, array)
    assert Vectors.deserialize(Vectors((1.0, 2, 3)).serialize()).v == [1.0, 2, 3]
    for wrong in ("abc", [1.0, 2.0], [1.0, 2.0, "3"], np.zeros(4), np.zeros((3, 1)), None):
        with pytest.raises(MessageDeserializationError, match="vector of 3 f32"):
            Vectors.deserialize(Vectors(wrong).serialize())
    with pytest.raises(MessageDeserializationError, match="-128 to 127"):
        Vectors.deserialize(Vectors(array, 200).serialize())
