"""Reads a checkpoint's master.h5 with h5py alone, knowing nothing of muster, and prints what it found as JSON.

usage: read_checkpoint.py MASTER [VALUES]    VALUES: also print the elements of that dataset
Exit code 77: h5py is not installed.
"""
import hashlib
import json
import sys

try:
    import h5py
except ImportError:
    sys.exit(77)


def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if hasattr(value, "tolist"):
        value = value.tolist()
    return value.decode() if isinstance(value, bytes) else value


def main():
    tensors, state = {}, {}
    canonical = hashlib.sha256()

    with h5py.File(sys.argv[1], "r") as master:
        def visit(name, item):
            if not isinstance(item, h5py.Dataset):
                return
            if name.startswith("training_state"):
                state[name] = plain(item[()])
                return
            data = item[...].astype("<f4").tobytes()
            tensors[name] = {
                "shape": list(item.shape),
                "dtype": item.dtype.str,
                "sha256": hashlib.sha256(data).hexdigest(),
                "nan": int((item[...] != item[...]).sum()),
                "virtual": item.is_virtual,
            }

        master.visititems(visit)
        for name in sorted(tensors, key=lambda n: n.encode()):
            if name.startswith(("parameters/", "optimizer/")):
                canonical.update(master[name][...].astype("<f4").tobytes())
        attributes = {name: plain(value) for name, value in master.attrs.items()}
        values = master[sys.argv[2]][...].flatten().tolist() if len(sys.argv) > 2 else []

    # NaN is not JSON; None takes its place.
    values = [None if value != value else value for value in values]
    json.dump({"tensors": tensors, "state": state, "attributes": attributes,
               "canonical": canonical.hexdigest(), "values": values}, sys.stdout)


main()
