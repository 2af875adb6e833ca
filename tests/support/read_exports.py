"""Reads one checkpoint's two exports, knowing nothing of muster, and prints what is in them as JSON.

usage: read_exports.py PARAMETERS.safetensors PARAMETERS.h5
Exit code 77: h5py is not installed. The package safetensors is used if it is there; else its format is parsed here.
"""
import hashlib
import json
import struct
import sys

try:
    import h5py
    import numpy
except ImportError:
    sys.exit(77)


def parse(path):
    """As https://github.com/huggingface/safetensors describes the format; every byte must be accounted for."""
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    metadata = header.pop("__metadata__")
    tensors, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin = entry["data_offsets"][0]
        assert begin == end, f"a gap before {name}"
        end = entry["data_offsets"][1]
        assert entry["dtype"] == "F32" and (8 + length) % 8 == 0
        tensors[name] = numpy.frombuffer(body[begin:end], "<f4").reshape(entry["shape"])
    assert end == len(body), "bytes that belong to no tensor"
    return metadata, tensors


def parse_with_package(path):
    import safetensors
    import safetensors.numpy

    with safetensors.safe_open(path, framework="np") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}


def describe(tensors):
    return {
        name: {"shape": list(tensor.shape), "sha256": hashlib.sha256(tensor.astype("<f4").tobytes()).hexdigest()}
        for name, tensor in tensors.items()
    }


def main():
    metadata, tensors = parse(sys.argv[1])
    try:
        by_package = parse_with_package(sys.argv[1])
        assert by_package[0] == metadata and describe(by_package[1]) == describe(tensors)
    except ImportError:
        pass
    with h5py.File(sys.argv[2], "r") as file:
        stored = {name: dataset[...] for name, dataset in file.items()}
        assert all(dataset.chunks is None and dataset.dtype == "<f4" for dataset in file.values())
        attributes = {name: value.decode() if isinstance(value, bytes) else str(value) for name, value in file.attrs.items()}
    json.dump({"safetensors": {"metadata": metadata, "tensors": describe(tensors)},
               "hdf5": {"metadata": attributes, "tensors": describe(stored)}}, sys.stdout)


main()
