"""Checks an evidence pack of the commit fence. Needs Python 3.8 or newer, and nothing else.

    python3 check.py               the pack that this file lies in
    python3 check.py PACK          another one: a folder, or a zip file
    python3 check.py --keys FILE   believe only the public keys in FILE (a JWK set that you got elsewhere)

Exit status 0 when everything is as it was sealed; 1, with the first thing that is not, otherwise.
It asks nobody, opens no connection, and writes nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import zipfile
from datetime import datetime, timedelta, timezone

FORMAT = "commit fence evidence 1"
COLUMNS = ("at", "actor", "role", "verb", "kind", "subject", "run", "before", "after", "reason", "source", "request")
SEAL_BODY = ("number", "previous", "after", "last", "count", "root", "at", "kid")
SEAL_DOMAIN = b"commit fence audit seal 1\n"
PACK_DOMAIN = b"commit fence evidence pack 1\n"
EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
IGNORED = ("__pycache__",)


class Bad(Exception):
    """Something is not as it was sealed; the words say what, and where."""


# Ed25519, RFC 8032, section 5.1: only the checking of signatures.

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)


def point_at(y, sign):
    """The point of the curve with this y and this lowest bit of x; None where there is none."""
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * ROOT_OF_MINUS_ONE % P
    if x * x % P != square or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


def add(one, other):
    """The sum of two points in extended coordinates."""
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = other
    a, b = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(factor, point):
    """A multiple of a point."""
    found = (0, 1, 1, 0)
    while factor:
        if factor & 1:
            found = add(found, point)
        point = add(point, point)
        factor >>= 1
    return found


def decoded(data):
    """Read a point of 32 bytes."""
    number = int.from_bytes(data, "little")
    return point_at(number & (2**255 - 1), number >> 255)


BASE = point_at(4 * pow(5, P - 2, P) % P, 0)


def is_signed(public, message, signature):
    """Whether a signature of 64 bytes over a message is that of a public key of 32 bytes."""
    if len(public) != 32 or len(signature) != 64:
        return False
    key, commitment = decoded(public), decoded(signature[:32])
    response = int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or response >= ORDER:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % ORDER
    left, right = times(response, BASE), add(commitment, times(challenge, key))
    return (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


# How the audit is hashed and sealed.


def row_bytes(row):
    """The bytes of a row that are hashed: lengths, then texts; a moment as microseconds since 2000."""
    moment = datetime.strptime(row["at"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    texts = [micros.to_bytes(8, "big", signed=True).hex()] + [row[name] for name in COLUMNS[1:]]
    parts = [None if text is None else text.encode("utf-8") for text in texts]
    lengths = ",".join("" if part is None else str(len(part)) for part in parts)
    return lengths.encode() + b";" + b"".join(part for part in parts if part is not None)


def leaf_of_row(row):
    """The leaf of a row in the tree of its seal."""
    entry = int(row["id"]).to_bytes(8, "big", signed=True) + hashlib.sha256(row_bytes(row)).digest()
    return hashlib.sha256(b"\x00" + entry).digest()


def root_of_leaves(level):
    """The root over all leaves of a seal."""
    while len(level) > 1:
        pairs = [hashlib.sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        level = pairs + ([level[-1]] if len(level) % 2 else [])
    return "sha256:" + level[0].hex()


def root_of_row(row):
    """The root that a row leads to by its proof."""
    found = leaf_of_row(row)
    for step in row["path"]:
        side, _, text = step.partition(":")
        other = bytes.fromhex(text)
        found = hashlib.sha256(b"\x01" + (other + found if side == "left" else found + other)).digest()
    return "sha256:" + found.hex()


def seal_bytes(seal):
    """The bytes of a seal that are hashed and signed."""
    body = {name: seal[name] for name in SEAL_BODY}
    return SEAL_DOMAIN + json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def unpadded(text):
    """Read base64url without padding, written as it has to be."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(data).decode().rstrip("=") != text:
        raise ValueError("not the one way to write it")
    return data


# The pack.


class Pack:
    """The files of a pack, from a folder or a zip file."""

    def __init__(self, path):
        self.path = path
        self.zip = None if os.path.isdir(path) else zipfile.ZipFile(path)

    def names(self):
        """Every file, with slashes between folders."""
        if self.zip is not None:
            return sorted(self.zip.namelist())
        found = []
        for folder, folders, files in os.walk(self.path):
            folders[:] = [name for name in folders if name not in IGNORED]
            inner = os.path.relpath(folder, self.path).replace(os.sep, "/")
            found += [name if inner == "." else inner + "/" + name for name in files]
        return sorted(found)

    def read(self, name):
        """The bytes of a file."""
        try:
            if self.zip is not None:
                return self.zip.read(name)
            with open(os.path.join(self.path, *name.split("/")), "rb") as file:
                return file.read()
        except KeyError:
            raise Bad(name + " is missing")
        except Exception as fault:
            raise Bad(name + " cannot be read: " + str(fault))

    def json(self, name):
        """A file that holds JSON."""
        try:
            return json.loads(self.read(name).decode("utf-8"))
        except ValueError as fault:
            raise Bad(name + " is damaged: " + str(fault))

    def lines(self, name):
        """A file that holds one JSON object a line, with the number of each line."""
        for number, line in enumerate(self.read(name).split(b"\n"), 1):
            if not line:
                continue
            try:
                yield number, json.loads(line.decode("utf-8"))
            except ValueError as fault:
                raise Bad("%s, line %d is damaged: %s" % (name, number, fault))


def keys_in(jwks, name):
    """Public keys by their names."""
    try:
        return {key["kid"]: (unpadded(key["x"]), key.get("use")) for key in jwks["keys"]}
    except (KeyError, TypeError, ValueError) as fault:
        raise Bad(name + " holds no public keys: " + str(fault))


def check_seals(pack, keys):
    """Check every seal's signature and hash, and that each hangs on the one before it where both are there."""
    seals, before = {}, None
    for number, seal in pack.lines("seals.ndjson"):
        where = "seals.ndjson, line %d (seal %s)" % (number, seal.get("number"))
        try:
            body = seal_bytes(seal)
            signature = unpadded(seal["signature"])
        except (KeyError, TypeError, ValueError) as fault:
            raise Bad("%s is damaged: %s" % (where, fault))
        if seal["kid"] not in keys:
            raise Bad("%s names a key that is not known: %s" % (where, seal["kid"]))
        if not is_signed(keys[seal["kid"]][0], body, signature):
            raise Bad("%s carries no good signature" % where)
        if seal.get("hash") != "sha256:" + hashlib.sha256(body).hexdigest():
            raise Bad("%s has another hash than it says" % where)
        if before is not None and seal["number"] == before["number"] + 1 and seal["previous"] != before["hash"]:
            raise Bad("%s does not hang on the seal before it" % where)
        seals[seal["number"]] = before = seal
    return seals


def check_rows(pack, seals):
    """Check that every row of the audit leads to the root of its seal; give how many do, and how many have none."""
    good = waiting = last = 0
    whole = Whole(seals)
    for number, row in pack.lines("audit.ndjson"):
        where = "audit.ndjson, line %d (row %s)" % (number, row.get("id"))
        try:
            if row["id"] <= last:
                raise Bad(where + " is out of order")
            last = row["id"]
            if row["seal"] is None:
                waiting += 1
                continue
            seal = seals.get(row["seal"])
            if seal is None:
                raise Bad("%s names seal %s, which is not in the pack" % (where, row["seal"]))
            if not seal["after"] < row["id"] <= seal["last"]:
                raise Bad("%s is not one that seal %s covers" % (where, row["seal"]))
            if row["path"] is None:
                whole.add(row, seal)
            elif root_of_row(row) != seal["root"]:
                raise Bad("%s is not what seal %s was made over" % (where, row["seal"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as fault:
            raise Bad("%s is damaged: %s" % (where, fault))
        good += 1
    whole.end()
    if whole.seal is not None and whole.seal["number"] != max(seals):
        raise Bad("audit.ndjson ends with seal %s, and there are seals up to %s" % (whole.seal["number"], max(seals)))
    return good, waiting


class Whole:
    """Seals whose rows are all there, as in an export of the whole audit: they need no proof for each row."""

    def __init__(self, seals):
        self.seals = seals
        self.seal = None
        self.leaves = []
        self.first = None

    def add(self, row, seal):
        """Take one more row, in order."""
        if self.seal is not None and seal["number"] != self.seal["number"]:
            self.end()
            if seal["number"] != self.seal["number"] + 1 or seal["after"] != self.seal["last"]:
                raise Bad("audit.ndjson goes from seal %s on to seal %s" % (self.seal["number"], seal["number"]))
            self.leaves = []
        self.seal, self.first = seal, row["id"] if not self.leaves else self.first
        self.leaves.append(leaf_of_row(row))

    def end(self):
        """Check the seal whose rows were all read."""
        if self.seal is None:
            return
        where = "audit.ndjson, rows %s to %s" % (self.first, self.seal["last"])
        if len(self.leaves) != self.seal["count"]:
            count = (len(self.leaves), self.seal["number"], self.seal["count"])
            raise Bad(where + ": there are %d rows, and seal %s was made over %d" % count)
        if root_of_leaves(self.leaves) != self.seal["root"]:
            raise Bad("%s are not what seal %s was made over" % (where, self.seal["number"]))


def check_named_by_content(pack, folder):
    """Check files that are named by the SHA-256 of what is in them."""
    count = 0
    for name in pack.names():
        if name.startswith(folder + "/") and not name.endswith(".masked.json"):
            count += 1
            digest = name[len(folder) + 1 :].partition(".")[0]
            if hashlib.sha256(pack.read(name)).hexdigest() != digest:
                raise Bad(name + " is not what its name says: its content was changed")
    return count


def check_files(pack, manifest):
    """Check that the pack has the files that it was made with, byte for byte, and no others."""
    files = manifest["files"]
    for name in sorted(files):
        if hashlib.sha256(pack.read(name)).hexdigest() != files[name]:
            raise Bad(name + " was changed after the pack was made")
    for name in pack.names():
        if name not in files and name != "manifest.json" and not name.endswith(".pyc"):
            raise Bad(name + " was added after the pack was made")
    return len(files)


def check_manifest(pack, keys):
    """Check the list of files and its signature; give it and whether it is signed."""
    manifest = pack.json("manifest.json")
    try:
        if manifest["format"] != FORMAT:
            raise Bad("manifest.json is of another format than this checker knows: " + str(manifest["format"]))
        signature, kid = manifest.pop("signature"), manifest.pop("kid")
        body = PACK_DOMAIN + json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
        if signature is not None and (kid not in keys or not is_signed(keys[kid][0], body, unpadded(signature))):
            raise Bad("manifest.json carries no good signature")
        if not isinstance(manifest["files"], dict) or manifest["rows"] < 0:
            raise Bad("manifest.json is damaged")
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise Bad("manifest.json is damaged: %s" % fault)
    if json.dumps(manifest, sort_keys=True, indent=1) != written_manifest(pack):
        raise Bad("manifest.json is written in another way than it was made")
    return manifest, signature is not None


def written_manifest(pack):
    """The list of files as it was written, without its signature."""
    manifest = json.loads(pack.read("manifest.json").decode("utf-8"))
    text = json.dumps(manifest, sort_keys=True, indent=1)
    if text.encode() + b"\n" != pack.read("manifest.json"):
        return ""
    return json.dumps({k: v for k, v in manifest.items() if k not in ("signature", "kid")}, sort_keys=True, indent=1)


def check_keys_came_along(pack):
    """Check that the keys are those that the pack was made with: everything else rests on them."""
    files = pack.json("manifest.json")
    named = files.get("files") if isinstance(files, dict) else None
    digest = named.get("keys.json") if isinstance(named, dict) else None
    if hashlib.sha256(pack.read("keys.json")).hexdigest() != digest:
        raise Bad("keys.json and manifest.json contradict each other: one of them was changed")


def check(path, keys_file=None):
    """Check a pack; give sentences on what was found.

    Raises:
        Bad: something is not as it was sealed.
    """
    pack = Pack(path)
    check_keys_came_along(pack)
    if keys_file is None:
        keys = keys_in(pack.json("keys.json"), "keys.json")
    else:
        with open(keys_file, "rb") as file:
            keys = keys_in(json.loads(file.read().decode("utf-8")), keys_file)
    seals = check_seals(pack, keys)
    rows, waiting = check_rows(pack, seals)
    actions = check_named_by_content(pack, "actions")
    prose = check_named_by_content(pack, "prose")
    manifest, has_signature = check_manifest(pack, keys)
    files = check_files(pack, manifest)
    if rows + waiting != manifest["rows"]:
        raise Bad("audit.ndjson has %d rows, and the pack was made with %d" % (rows + waiting, manifest["rows"]))
    if not rows + waiting:
        raise Bad("audit.ndjson has no row: there is nothing that could be proven")
    told = ["Evidence of the %s %s, made %s." % (manifest["kind"], manifest["id"], manifest["made_at"])]
    told.append("%d rows of the audit lead to %d signed seals." % (rows, len(seals)))
    if waiting:
        told.append("%d rows had no seal yet when the pack was made: they are shown, and not proven." % waiting)
    told.append(
        "%d actions and %d texts are what their digests say; %d files are as they were made." % (actions, prose, files)
    )
    told.append("The list of files is signed." if has_signature else "The list of files is not signed.")
    for name, why in sorted(manifest.get("withheld", {}).items()):
        told.append("Withheld: %s (%s)." % (name, why))
    if manifest.get("is_cut"):
        told.append("There was more than a pack holds: the oldest rows of some lists stand in it, not all.")
    return told


def main(arguments):
    """Check what the command line names, and say what was found."""
    if "-h" in arguments or "--help" in arguments:
        print(__doc__)
        return 0
    keys_file = None
    if "--keys" in arguments:
        place = arguments.index("--keys")
        keys_file = arguments[place + 1] if place + 1 < len(arguments) else ""
        del arguments[place : place + 2]
    path = arguments[0] if arguments else os.path.dirname(os.path.abspath(__file__))
    try:
        told = check(path, keys_file)
    except Bad as bad:
        print("BAD: %s" % bad)
        return 1
    except (OSError, zipfile.BadZipFile, ValueError) as fault:
        print("BAD: %s cannot be read: %s" % (path, fault))
        return 1
    print("\n".join(["GOOD"] + told))
    if keys_file is None:
        print("The keys came with the pack. To be sure whose they are, compare them, or use --keys.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
