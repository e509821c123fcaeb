"""Disassembles SPIR-V like ``spirv-dis``: the part of the language that Taichi emits."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from tikgen.errors import TikgenError

_MAGIC = 0x07230203
_HEADER_WORDS = 5

# Opcodes by their operands: T type and R result; i an id, n a number, s a string, v a number of the
# type of the result, x a function of GLSL; other letters are an enumeration below; * repeats the
# last operand, and operands after ? are optional.
_OPCODES = {
    "": "0 Nop 56 FunctionEnd 252 Kill 253 Return 255 Unreachable",
    "R": "19 TypeVoid 20 TypeBool 26 TypeSampler 248 Label",
    "Rn": "22 TypeFloat",
    "Rnn": "21 TypeInt",
    "Rs": "7 String 11 ExtInstImport",
    "Ri*": "27 TypeSampledImage 28 TypeArray 29 TypeRuntimeArray 30 TypeStruct 33 TypeFunction",
    "Rin": "23 TypeVector 24 TypeMatrix",
    "RSi": "32 TypePointer",
    "TR": "1 Undef 41 ConstantTrue 42 ConstantFalse 46 ConstantNull 55 FunctionParameter",
    "TRv": "43 Constant 50 SpecConstant",
    "TRFi": "54 Function",
    "TRS?i": "59 Variable",
    "TRi?M": "61 Load",
    "TRin": "68 ArrayLength",
    "TRin*": "81 CompositeExtract",
    "TRiin*": "79 VectorShuffle 82 CompositeInsert",
    "TRixi*": "12 ExtInst",
    "TRiGi*": "349 GroupNonUniformIAdd 350 GroupNonUniformFAdd 351 GroupNonUniformIMul "
    "352 GroupNonUniformFMul 353 GroupNonUniformSMin 354 GroupNonUniformUMin "
    "355 GroupNonUniformFMin 356 GroupNonUniformSMax 357 GroupNonUniformUMax "
    "358 GroupNonUniformFMax 359 GroupNonUniformBitwiseAnd 360 GroupNonUniformBitwiseOr "
    "361 GroupNonUniformBitwiseXor",
    "TRi*": "44 ConstantComposite 51 SpecConstantComposite 57 FunctionCall 65 AccessChain "
    "66 InBoundsAccessChain 67 PtrAccessChain 70 InBoundsPtrAccessChain 80 CompositeConstruct "
    "83 CopyObject 109 ConvertFToU 110 ConvertFToS 111 ConvertSToF 112 ConvertUToF 113 UConvert "
    "114 SConvert 115 FConvert 117 ConvertPtrToU 120 ConvertUToPtr 124 Bitcast 126 SNegate "
    "127 FNegate 128 IAdd 129 FAdd 130 ISub 131 FSub 132 IMul 133 FMul 134 UDiv 135 SDiv 136 FDiv "
    "137 UMod 138 SRem 139 SMod 140 FRem 141 FMod 142 VectorTimesScalar 148 Dot 154 Any 155 All "
    "156 IsNan 157 IsInf 164 LogicalEqual 165 LogicalNotEqual 166 LogicalOr 167 LogicalAnd "
    "168 LogicalNot 169 Select 170 IEqual 171 INotEqual 172 UGreaterThan 173 SGreaterThan "
    "174 UGreaterThanEqual 175 SGreaterThanEqual 176 ULessThan 177 SLessThan 178 ULessThanEqual "
    "179 SLessThanEqual 180 FOrdEqual 181 FUnordEqual 182 FOrdNotEqual 183 FUnordNotEqual "
    "184 FOrdLessThan 185 FUnordLessThan 186 FOrdGreaterThan 187 FUnordGreaterThan "
    "188 FOrdLessThanEqual 189 FUnordLessThanEqual 190 FOrdGreaterThanEqual "
    "191 FUnordGreaterThanEqual 194 ShiftRightLogical 195 ShiftRightArithmetic "
    "196 ShiftLeftLogical 197 BitwiseOr 198 BitwiseXor 199 BitwiseAnd 200 Not 201 BitFieldInsert "
    "202 BitFieldSExtract 203 BitFieldUExtract 204 BitReverse 205 BitCount 227 AtomicLoad "
    "229 AtomicExchange 230 AtomicCompareExchange 232 AtomicIIncrement 233 AtomicIDecrement "
    "234 AtomicIAdd 235 AtomicISub 236 AtomicSMin 237 AtomicUMin 238 AtomicSMax 239 AtomicUMax "
    "240 AtomicAnd 241 AtomicOr 242 AtomicXor 245 Phi 333 GroupNonUniformElect "
    "334 GroupNonUniformAll 335 GroupNonUniformAny 336 GroupNonUniformAllEqual "
    "337 GroupNonUniformBroadcast 338 GroupNonUniformBroadcastFirst 339 GroupNonUniformBallot "
    "345 GroupNonUniformShuffle 346 GroupNonUniformShuffleXor 347 GroupNonUniformShuffleUp "
    "348 GroupNonUniformShuffleDown 5614 AtomicFMinEXT 5615 AtomicFMaxEXT 6035 AtomicFAddEXT",
    "s": "4 SourceExtension 10 Extension",
    "Ln?is": "3 Source",
    "is": "5 Name",
    "ins": "6 MemberName",
    "AY": "14 MemoryModel",
    "Eisi*": "15 EntryPoint",
    "iXn*": "16 ExecutionMode",
    "C": "17 Capability",
    "iD": "71 Decorate",
    "inD": "72 MemberDecorate",
    "ii?M": "62 Store",
    "i*": "224 ControlBarrier 225 MemoryBarrier 228 AtomicStore 249 Branch 254 ReturnValue",
    "iil": "246 LoopMerge",
    "ic": "247 SelectionMerge",
    "iiin*": "250 BranchConditional",
    "iiw*": "251 Switch",
}
_ENUMERATIONS = {
    "A": "0 Logical 1 Physical32 2 Physical64 5348 PhysicalStorageBuffer64",
    "Y": "0 Simple 1 GLSL450 2 OpenCL 3 Vulkan",
    "E": "0 Vertex 4 Fragment 5 GLCompute",
    "L": "0 Unknown 1 ESSL 2 GLSL",
    "X": "17 LocalSize 4459 DenormPreserve 4460 DenormFlushToZero 4461 SignedZeroInfNanPreserve "
    "4462 RoundingModeRTE 4463 RoundingModeRTZ",
    "C": "0 Matrix 1 Shader 9 Float16 10 Float64 11 Int64 12 Int64Atomics 22 Int16 39 Int8 "
    "61 GroupNonUniform 62 GroupNonUniformVote 63 GroupNonUniformArithmetic "
    "64 GroupNonUniformBallot 65 GroupNonUniformShuffle 66 GroupNonUniformShuffleRelative "
    "4433 StorageBuffer16BitAccess 4441 VariablePointersStorageBuffer 4442 VariablePointers "
    "4448 StorageBuffer8BitAccess 4464 DenormPreserve 4465 DenormFlushToZero "
    "4466 SignedZeroInfNanPreserve 4467 RoundingModeRTE 4468 RoundingModeRTZ "
    "5347 PhysicalStorageBufferAddresses 5612 AtomicFloat32MinMaxEXT 5613 AtomicFloat64MinMaxEXT "
    "5616 AtomicFloat16MinMaxEXT 6033 AtomicFloat32AddEXT 6034 AtomicFloat64AddEXT "
    "6095 AtomicFloat16AddEXT",
    "S": "0 UniformConstant 1 Input 2 Uniform 3 Output 4 Workgroup 5 CrossWorkgroup 6 Private "
    "7 Function 9 PushConstant 11 Image 12 StorageBuffer 5349 PhysicalStorageBuffer",
    "D": "0 RelaxedPrecision 1 SpecId 2 Block 3 BufferBlock 6 ArrayStride 7 MatrixStride "
    "11 BuiltIn 18 Invariant 19 Restrict 20 Aliased 21 Volatile 23 Coherent 24 NonWritable "
    "25 NonReadable 33 Binding 34 DescriptorSet 35 Offset 42 NoContraction "
    "5355 RestrictPointer 5356 AliasedPointer",
    "B": "24 NumWorkgroups 25 WorkgroupSize 26 WorkgroupId 27 LocalInvocationId "
    "28 GlobalInvocationId 29 LocalInvocationIndex 36 SubgroupSize 40 SubgroupId "
    "41 SubgroupLocalInvocationId",
    "G": "0 Reduce 1 InclusiveScan 2 ExclusiveScan 3 ClusteredReduce",
    "F": "1 Inline 2 DontInline 4 Pure 8 Const",
    "c": "1 Flatten 2 DontFlatten",
    "l": "1 Unroll 2 DontUnroll",
    "M": "1 Volatile 2 Aligned 4 Nontemporal 32 NonPrivatePointer",
    "x": "1 Round 2 RoundEven 3 Trunc 4 FAbs 5 SAbs 6 FSign 7 SSign 8 Floor 9 Ceil 10 Fract "
    "11 Radians 12 Degrees 13 Sin 14 Cos 15 Tan 16 Asin 17 Acos 18 Atan 19 Sinh 20 Cosh 21 Tanh "
    "22 Asinh 23 Acosh 24 Atanh 25 Atan2 26 Pow 27 Exp 28 Log 29 Exp2 30 Log2 31 Sqrt "
    "32 InverseSqrt 37 FMin 38 UMin 39 SMin 40 FMax 41 UMax 42 SMax 43 FClamp 44 UClamp 45 SClamp "
    "46 FMix 48 Step 49 SmoothStep 50 Fma 53 Ldexp 66 Length 73 FindILsb 74 FindSMsb 75 FindUMsb "
    "79 NMin 80 NMax 81 NClamp",
}
_MASKS = "FclM"
# For floats by their bits: the letter of ``struct``, and enough digits to distinguish any two.
_FLOATS = {16: ("e", 5), 32: ("f", 9), 64: ("d", 17)}


def _pairs(text: str) -> Iterator[tuple[int, str]]:
    words = text.split()
    return ((int(n), name) for n, name in zip(words[::2], words[1::2], strict=True))


_KNOWN = {n: (name, kinds) for kinds, text in _OPCODES.items() for n, name in _pairs(text)}
_NAMES = {letter: dict(_pairs(text)) for letter, text in _ENUMERATIONS.items()}


def disassemble(words: Sequence[int]) -> str:
    """Return a SPIR-V module as text, an instruction a line, in the format of ``spirv-dis``.

    Ids appear under the names that the module gives them, else as numbers. Instructions that
    Taichi does not emit are shown as numbers.

    Raises:
        TikgenError: if ``words`` is not a SPIR-V module.
    """
    if len(words) < _HEADER_WORDS or words[0] != _MAGIC:
        raise TikgenError("This is not a SPIR-V module, which begins with 0x07230203.")
    module = _Module()
    lines = []
    for opcode, operands in _instructions(words):
        module.note(opcode, operands)
    for opcode, operands in _instructions(words):
        lines.append(module.line(opcode, operands))
    return "\n".join(lines) + "\n"


def _instructions(words: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    place = _HEADER_WORDS
    while place < len(words):
        count, opcode = words[place] >> 16, words[place] & 0xFFFF
        if not count or place + count > len(words):
            raise TikgenError(f"The SPIR-V module is cut off at word {place}.")
        yield opcode, words[place + 1 : place + count]
        place += count


class _Module:
    """The names and types of ids, with which instructions are printed."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        # Numeric types: whether they are floats, whether signed, their bits.
        self._numbers: dict[int, tuple[bool, bool, int]] = {}

    def note(self, opcode: int, operands: Sequence[int]) -> None:
        """Keep the name or type that an instruction declares."""
        name = _KNOWN.get(opcode, ("", ""))[0]
        if name == "Name":
            text = "".join(c if c.isalnum() else "_" for c in _text(operands[1:])[0])
            if text:
                taken = text[0].isdigit() or text in self._ids.values()
                self._ids[operands[0]] = f"{text}_{operands[0]}" if taken else text
        elif name == "TypeFloat":
            self._numbers[operands[0]] = (True, True, operands[1])
        elif name == "TypeInt":
            self._numbers[operands[0]] = (False, bool(operands[2]), operands[1])

    def line(self, opcode: int, operands: Sequence[int]) -> str:
        if opcode not in _KNOWN:
            return " ".join(["Op", str(opcode), *map(str, operands)])
        name, kinds = _KNOWN[opcode]
        result = ""
        shown = [f"Op{name}"]
        rest, kinds = list(operands), kinds.replace("?", "")
        type_id = rest[0] if kinds.startswith("T") else None
        while rest:
            kind = kinds[0]
            if kind == "R":
                result = f"{self._id(rest.pop(0))} = "
            else:
                shown += self._operand(kind, rest, type_id)
            if kinds[1:2] != "*":
                kinds = kinds[1:]
        return result + " ".join(shown)

    def _id(self, number: int) -> str:
        return f"%{self._ids.get(number, number)}"

    def _operand(self, kind: str, rest: list[int], type_id: int | None) -> list[str]:
        """Remove an operand from ``rest``; return its text, with that of its own operands."""
        if kind in "Ti":
            return [self._id(rest.pop(0))]
        if kind == "n":
            return [str(rest.pop(0))]
        if kind == "s":
            text, words = _text(rest)
            del rest[:words]
            return ['"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"']
        if kind == "v":
            number = _number(rest, self._numbers.get(type_id or 0))
            rest.clear()
            return [number]
        if kind == "w":
            return [str(rest.pop(0)), self._id(rest.pop(0))]
        value = rest.pop(0)
        shown = [_mask(kind, value) if kind in _MASKS else _NAMES[kind].get(value, str(value))]
        if kind in "DMl":  # The rest are its own operands.
            names = _NAMES["B"] if shown == ["BuiltIn"] else {}
            shown += [names.get(number, str(number)) for number in rest]
            rest.clear()
        return shown


def _mask(kind: str, value: int) -> str:
    names = [name for bit, name in _NAMES[kind].items() if value & bit]
    return "|".join(names) or "None"


def _text(words: Sequence[int]) -> tuple[str, int]:
    """Return the string at the beginning of ``words``, and its number of words."""
    data = struct.pack(f"<{len(words)}I", *words)
    end = data.index(b"\0")
    return data[:end].decode(errors="replace"), end // 4 + 1


def _number(words: Sequence[int], kind: tuple[bool, bool, int] | None) -> str:
    is_float, is_signed, bits = kind or (False, False, 32 * len(words))
    data = struct.pack(f"<{len(words)}I", *words)
    if not is_float:
        size = max(bits // 8, 1)
        return str(int.from_bytes(data[:size], "little", signed=is_signed))
    letter, digits = _FLOATS[bits]
    value: float = struct.unpack_from(f"<{letter}", data)[0]
    return f"{value:.{digits}g}"
