"""Messages of actors: classes and their fields."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import os
import pickle
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, SupportsFloat, TypedDict
from uuid import UUID, uuid4

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from message_samples import AsPeer, Colour, Derived, Everything, Request
from tikgen.errors import TikgenError
from tikgen.ring.errors import MessageDeserializationError
from tikgen.ring.messages.base import (
    RingKernelMessage,
    deserialize_message,
    message,
    new_message_id,
)
from tikgen.ring.messages.checks import checker
from tikgen.ring.messages.columns import f32, i8, vector


def test_identifiers_are_random_uuids_of_version_4():
    ids = [new_message_id() for _ in range(2000)]
    assert len(set(ids)) == 2000
    assert all(type(one) is UUID and one.version == 4 and one.variant for one in ids)
    assert pickle.loads(pickle.dumps(ids[0])) == ids[0] == UUID(str(ids[0]))
    assert Request(1.0).message_id != Request(1.0).message_id


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_makes_other_identifiers():
    new_message_id()  # So that there is a block of ids to share.
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, b"".join(new_message_id().bytes for _ in range(300)))
        os._exit(0)
    os.waitpid(child, 0)
    received = os.read(ours, 300 * 16)
    os.close(ours)
    os.close(theirs)
    its = {received[k : k + 16] for k in range(0, len(received), 16)}
    assert len(its) == 300
    assert its.isdisjoint(new_message_id().bytes for _ in range(600))


def test_a_plain_class_becomes_a_message():
    made = Request(1.5, 3, names=["x"], priority=200)
    assert (made.a, made.b, made.names, made.priority) == (1.5, 3, ["x"], 200)
    assert isinstance(made, RingKernelMessage) and made.correlation_id is None
    assert made.doubled() == 3.0 and Request.unit == "m" and Request.__doc__ == "A request."
    assert Request(1.0).names is not Request(1.0).names
    assert Request.__module__ == "message_samples" and Request.__qualname__ == "Request"
    assert Request.__struct_fields__[:3] == ("a", "b", "names")
    with pytest.raises(TypeError, match="positional"):
        Request(1.0, 2, [], made.message_id)


def test_a_dataclass_as_in_pydotcompute_becomes_a_message():
    made = AsPeer(2.5)
    assert repr(made) == "AsPeer of 2.5" and made.priority == 128
    assert AsPeer.__struct_fields__ == ("value", "message_id", "priority", "correlation_id")
    identity = uuid4()
    assert AsPeer(1.0, message_id=identity).message_id == identity
    assert AsPeer.deserialize(made.serialize()) == made

    @message
    @dataclass(frozen=True, order=True)
    class Frozen:
        a: int
        b: list[int] = field(default_factory=list)
        priority: int = 7

    assert Frozen(1).priority == 7 and isinstance(hash(Frozen(1, ())), int)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        Frozen(1).a = 2
    answer = uuid4()
    assert Frozen(1).with_correlation(answer).correlation_id == answer

    @message
    @dataclass(slots=True)
    class Slotted:
        a: int = 4

    assert Slotted().a == 4

    @dataclass
    class Parent:
        a: int
        b: int = 2

        def total(self) -> int:
            return self.a + self.b

    @message
    @dataclass
    class Child(Parent):
        c: int = 3

        def total(self) -> int:
            return super().total() + self.c

    assert Child(1).total() == 6 and Child.__struct_fields__[:3] == ("a", "b", "c")


def test_a_struct_becomes_a_message():
    class Parent(msgspec.Struct):
        a: int
        b: list[int] = []

        def first(self) -> int:
            return self.a

    @message
    class Child(Parent):
        c: str = "c"

        def again(self) -> type:
            return __class__

    made = Child(1, [2])
    assert (made.first(), made.b, made.c) == (1, [2], "c")
    assert made.again() is Child
    assert Child.deserialize(made.serialize()) == made


def test_a_class_may_derive_from_the_base_and_mix_others_in():
    class Mixin:
        __slots__ = ()

        def shout(self) -> str:
            return self.text.upper()  # type: ignore[attr-defined, no-any-return]

    class Direct(RingKernelMessage):
        text: str
        also: int = 1

    @message
    class Mixed(Mixin):
        text: str

    assert Direct("a", 2).also == 2 and message(Direct) is Direct
    assert Mixed("abc").shout() == "ABC" and isinstance(Mixed("a"), Mixin)
    for made in (Direct("x"), Mixed("y")):
        assert deserialize_message(made.serialize()) == made


def test_post_init_of_the_class_runs_after_that_of_the_base():
    @message
    class Careful:
        a: int

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("a is negative")

    with pytest.raises(ValueError, match="negative"):
        Careful(-1)
    with pytest.raises(ValueError, match="priority"):
        Careful(1, priority=256)

    @dataclass
    class Parent:
        a: int

        def __post_init__(self) -> None:
            self.a += 1

    @message
    @dataclass
    class Child(Parent):
        b: int = 0

    assert Child(1).a == 2
    with pytest.raises(ValueError, match="priority"):
        Child(1, priority=256)
    data = Careful(1).serialize()
    with pytest.raises(MessageDeserializationError, match="negative"):
        Careful.deserialize(data.replace(b"\xa1a\x01", b"\xa1a\xff"))


@pytest.mark.parametrize("priority", [-1, 256, 10**30, "high", None, 1.5, [1]])
def test_priorities_are_0_to_255(priority):
    with pytest.raises(ValueError, match="priority takes 0 to 255; got") as caught:
        Request(1.0, priority=priority)
    assert isinstance(caught.value, TikgenError)
    assert Request(1.0, priority=0).priority == 0 and Request(1.0, priority=255).priority == 255


def test_classes_that_cannot_be_messages_are_refused():
    def with_default(value: Any) -> type:
        return type("Bad", (), {"__annotations__": {"x": Any}, "x": value, "__module__": __name__})

    for value in ([1], {"a": 1}, {1}, np.zeros(3), bytearray(b"a")):
        with pytest.raises(TypeError, match=r"Bad\.x: .*default_factory"):
            message(with_default(value))
    assert message(with_default([]))().x == []
    with pytest.raises(TypeError, match="__init__ of its own"):

        @message
        class Own:
            a: int

            def __init__(self) -> None: ...

    with pytest.raises(TypeError, match="InitVar"):

        @message
        class Init:
            a: dataclasses.InitVar[int] = 0

    with pytest.raises(TypeError, match="method of that name"):

        @message
        class Clash:
            reply: int = 0

    with pytest.raises(TypeError, match="takes a class") as caught:
        message(3)  # type: ignore[call-overload]
    assert isinstance(caught.value, TikgenError)
    with pytest.raises(TypeError, match="a message takes no __slots__; leave them out"):

        @message
        class Slots:
            __slots__ = ("a",)
            a: int

    class Listed(RingKernelMessage, array_like=True):
        a: int = 0

    with pytest.raises(MessageDeserializationError, match="are not written with array_like"):
        Listed.deserialize(Listed().serialize())


def test_defaults_of_msgspec_and_brackets_are_taken():
    @message()
    class Made:
        names: list[str] = msgspec.field(default_factory=list)
        count: int = msgspec.field(default=3)

    assert (Made().names, Made().count) == ([], 3)
    assert Made().names is not Made().names


def test_a_class_within_a_class_within_a_function_finds_its_neighbour():
    class Outer:
        class Leaf:
            pass

        @message
        class Inner:
            leaf: Leaf  # noqa: F821

        def find(self):
            return late

    assert "takes Leaf" in str(checker(Outer.Inner)(Outer.Inner(3)))
    assert checker(Outer.Inner)(Outer.Inner(Outer.Leaf())) is None
    late = 1


def test_replies_and_correlations():
    request = Request(1.0, priority=9)
    reply = request.reply(response_class=AsPeer, value=4.0)
    assert type(reply) is AsPeer and reply.correlation_id == request.message_id
    assert type(request.reply(a=2.0)) is Request
    identity = uuid4()
    other = request.with_correlation(identity)
    assert other.correlation_id == identity and request.correlation_id is None
    assert (other.message_id, other.priority) == (request.message_id, 9)


def test_messages_can_be_copied_and_pickled():
    for made in (Derived(1.0, 2, ["a"], "d", priority=3), AsPeer(1.0), Everything(n=Request(1.0))):
        for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert other == made and type(other) is type(made)


def test_local_classes_may_name_themselves_and_each_other():
    class Inner(RingKernelMessage):
        n: int

    @message
    class Outer:
        inner: Inner
        next: Outer | None = None

    made = Outer(Inner(1), Outer(Inner(2)))
    assert Outer.deserialize(made.serialize()) == made
    assert "takes Inner" in str(checker(Outer)(Outer(3)))  # type: ignore[arg-type]

    @message
    class Lost:
        x: DoesNotExist  # noqa: F821

    with pytest.raises(TypeError, match="DoesNotExist"):
        checker(Lost)
    with pytest.raises(MessageDeserializationError, match="DoesNotExist"):
        Lost.deserialize(Lost(1).serialize())


# Checks of fields.

CHECKS: list[tuple[Any, list[Any], list[Any]]] = [
    (float, [1.0, 1, np.float32(1), np.int64(3), np.float64("nan"), float("inf"), 10**400],
     ["1", True, None, 1j, np.bool_(True), np.longdouble(1) / 3, np.complex64(1), [1.0],
      np.timedelta64(3, "s")]),
    (int, [1, -(10**30), np.uint8(3)],
     [1.0, True, "1", None, np.float32(1), np.bool_(True), np.timedelta64(1)]),
    (bool, [True, np.bool_(False)], [0, 1.0, "x", None]),
    (str, ["a", np.str_("b")], [b"a", 1, None]),
    (bytes, [b"a"], ["a", bytearray(b"a"), 1]),
    (UUID, [UUID(int=1)], ["a", 1, None]),
    (UUID | None, [UUID(int=1), None], ["a", 1]),
    (int | str, [1, "a", np.int8(1)], [1.0, None, True]),
    (int | list[int], [1, [1]], [[1.0], "a"]),
    (float | None, [1.0, 1, None], ["a", True]),
    (np.ndarray, [np.zeros(2), np.array(1)], [[1], 1.0, None]),
    (npt.NDArray[np.int32], [np.zeros(2, np.int32)], [np.zeros(2), [1], None]),
    (npt.NDArray[np.floating], [np.zeros(2)], [[1]]),
    (list[float], [[], [1.0, 2], [np.float32(1)], [10**30]], [(1.0,), [1, "a"], [True], [None], 1]),
    (list[int], [[], [1, np.int8(2)]], [[1.0], [True], "ab", None]),
    (list[list[float]], [[[1.0]], []], [[1.0], [["a"]]]),
    (tuple[int, str], [(1, "a")], [(1,), ("a", 1), [1, "a"], (True, "a")]),
    (tuple[int, ...], [(), (1, 2)], [(1, "a"), [1]]),
    (set[str], [{"a"}], [{1}, ["a"]]),
    (dict[str, int], [{"a": 1}], [{1: 1}, {"a": "b"}, [1]]),
    (dict, [{}, {1: "a"}], [[], None]),
    (list, [[], [1, "a"]], [(), None]),
    (Colour, [Colour.red], [1, "red"]),
    (Request, [Request(1.0), Derived(1.0)], [AsPeer(1.0), None]),
    (datetime.date, [datetime.date(2026, 1, 1)], ["2026-01-01"]),
    (Literal["a", 1], ["a", 1], ["b", True, 1.0]),
    (Annotated[int, msgspec.Meta(ge=3)], [3, 9], [2, "3", True]),
    (i8, [-128, 127, np.int64(5)], [128, -129, True, 1.0]),
    (f32, [1.0, 1], ["a", True]),
    (vector(f32, 2), [[1.0, 2], (1, 2), np.zeros(2), np.zeros(2, int)],
     [[1.0], np.zeros(3), np.zeros((1, 2)), "ab", [1.0, None], np.zeros(2, complex)]),
    (vector(i8, 2), [[1, 2], np.zeros(2, int)], [np.zeros(2), [1.0, 2]]),
    (Any, [1, None, object()], []),
    (list[Any], [[1, "a"], []], [(1,), None]),
    (tuple[Any, int], [("a", 1), (None, 2)], [("a", "b"), ("a",)]),
    (dict[str, Any], [{"a": object()}], [{1: 1}]),
    (int | Any, ["a", None], []),
    (NewType("Metres", float), [1.0, 2], ["a", True]),
    (Annotated[int, []], [1], [1.5]),
    (TypedDict("Size", {"n": int}), [{"n": 1}], [{"n": "a"}, {}]),
    (SupportsFloat, [1.0, object()], []),
    (type[int], [bool, str], [1, "a"]),
]  # fmt: skip


@pytest.mark.parametrize("annotation, right, wrong", CHECKS, ids=[str(c[0]) for c in CHECKS])
def test_checks_of_fields(annotation, right, wrong):
    made = type("Made", (), {"__annotations__": {"x": annotation}, "__module__": __name__})
    kind = message(made)
    check = checker(kind)
    for value in right:
        assert check(kind(value)) is None, value
    for value in wrong:
        problem = check(kind(value))
        assert problem is not None, value
        assert problem.startswith("field 'x' takes ") and "; got " in problem
        assert f"{type(value).__name__} " in problem


def test_checks_of_other_objects_of_subclasses_and_of_the_base():
    check = checker(Request)
    assert check is checker(Request)
    assert "Request was expected; got AsPeer" in str(check(AsPeer(1.0)))
    assert "Request was expected; got 3" in str(check(3))
    assert check(Derived(1.0)) is None
    assert "field 'c' takes str; got int 5" in str(check(Derived(1.0, c=5)))  # type: ignore[arg-type]
    made = Request(1.0)
    made.priority = True
    assert "field 'priority' takes int; got bool True" in str(check(made))
    made = Request(1.0, correlation_id="x")  # type: ignore[call-arg]
    assert "field 'correlation_id' takes UUID | None" in str(check(made))
    empty = message(type("Empty", (), {"__module__": __name__}))
    assert checker(empty)(empty()) is None
