"""Write work and results as bytes that cross machines, and read them. No pickle is involved.

Works and results are dataclasses, written as MessagePack; an encoder goes as its published document (JSON), with the
fingerprint of its training records.
"""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from functools import lru_cache
from typing import Any, get_origin, get_type_hints

import msgspec
import numpy as np
import pyarrow as pa

from certifare.encoders.base import RestrictedEncoder
from certifare.encoders.fingerprint import Fingerprint
from certifare.encoders.format import parse_document
from certifare.encoders.loading import build_encoder
from certifare.engines.counting import BlockCounter, Tally
from certifare.engines.parts import RecordHasher, Sampled, SampleDrawer, Totals
from certifare.engines.thresholds import CalibratedCounter, CalibratedTally, LineTally, ThresholdCounter
from certifare.errors import ArgumentError

#: What can be done with the pieces of a table on other machines, and what it returns.
RESULTS: dict[type, type] = {
    RecordHasher: Totals,
    SampleDrawer: Sampled,
    BlockCounter: Tally,
    ThresholdCounter: LineTally,
    CalibratedCounter: CalibratedTally,
}
WORKS = {work.__name__: work for work in RESULTS}
#: Fields of works that hold encoders.
ENCODERS = ("encoder", "encoders")
#: Parameters of a fitted encoder that its document does not hold, and that decide how it finds groups.
PARAMETERS = ("sensitive", "output")


class EncoderBytes(msgspec.Struct):
    """An encoder: its document, the fingerprint of its training records, and some parameters."""

    document: bytes
    fingerprint: bytes | None
    parameters: dict[str, Any]

    @classmethod
    def of(cls, encoder: RestrictedEncoder) -> EncoderBytes:
        """Write an encoder."""
        known = encoder.get_params(deep=False)
        return cls(
            msgspec.json.encode(encoder.to_document()),
            None if encoder.fingerprint_ is None else encoder.fingerprint_.to_bytes(),
            {name: known[name] for name in PARAMETERS if name in known},
        )

    def read(self) -> RestrictedEncoder:
        """Read the encoder; it finds the same cells as the one that was written."""
        encoder = copy(_read_encoder(self.document, self.fingerprint))
        encoder.set_params(**self.parameters)
        return encoder


class _Named(msgspec.Struct):
    """A work: the name of its class, its encoders and its other fields."""

    name: str
    encoders: dict[str, list[EncoderBytes]]
    others: dict[str, msgspec.Raw]


@lru_cache(maxsize=64)
def _read_encoder(document: bytes, fingerprint: bytes | None) -> RestrictedEncoder:
    encoder = build_encoder(parse_document("the encoder", document))
    encoder.fingerprint_ = None if fingerprint is None else Fingerprint.from_bytes(fingerprint)
    return encoder


def write_work(work: Any) -> bytes:
    """Write a work as bytes."""
    if type(work) not in RESULTS:
        raise ArgumentError(f"{type(work).__name__} cannot be done on this cluster.")
    named = _Named(type(work).__name__, {}, {})
    for own in fields(work):
        value = getattr(work, own.name)
        if own.name in ENCODERS:
            encoders = value if isinstance(value, tuple) else (value,)
            named.encoders[own.name] = [EncoderBytes.of(encoder) for encoder in encoders]
        else:
            named.others[own.name] = msgspec.Raw(to_bytes(value))
    return msgspec.msgpack.encode(named)


def read_work(content: bytes) -> Any:
    """Read a work."""
    named = msgspec.msgpack.decode(content, type=_Named)
    work = WORKS[named.name]
    types = get_type_hints(work)
    values: dict[str, Any] = {name: from_bytes(value, types[name]) for name, value in named.others.items()}
    for name, encoders in named.encoders.items():
        read = tuple(encoder.read() for encoder in encoders)
        values[name] = read if name == "encoders" else read[0]
    return work(**values)


def to_bytes(value: Any) -> bytes:
    """Write the result of a work, or pieces of files, as bytes."""
    return msgspec.msgpack.encode(value, enc_hook=_plain)


def from_bytes(content: Any, type_: Any) -> Any:
    """Read a value of a type."""
    return msgspec.msgpack.decode(content, type=type_, dec_hook=_built)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "shape": value.shape, "data": value.tobytes()}
    if isinstance(value, pa.Table):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_table(value)
        return sink.getvalue().to_pybytes()
    raise NotImplementedError(type(value).__name__)


def _built(type_: Any, value: Any) -> Any:
    wanted = get_origin(type_) or type_
    if wanted is np.ndarray:
        return np.frombuffer(value["data"], value["dtype"]).reshape(value["shape"])
    if wanted is pa.Table:
        with pa.ipc.open_stream(value) as reader:
            return reader.read_all()
    raise NotImplementedError(str(type_))
