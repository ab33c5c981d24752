#!/usr/bin/env python3
"""Compares what tshark shows with the dissector of packaging/wireshark to what tests/vectors says.

usage: dissector_vectors.py headers|frames|bodies|void|unsealed|hello|records DISSECTOR WORK
Each record becomes a datagram or a TCP connection of a capture in the folder WORK; bodies are authenticated with a key that
the dissector gets. Prints what differs; how many records were right at the end.
"""
import hashlib
import hmac
import pathlib
import struct
import subprocess
import sys
import xml.etree.ElementTree

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "vectors"
PORT, NODE_PORT = 9347, 40000
NODE, SNAPT = bytes([192, 0, 2, 1]), bytes([198, 51, 100, 2])
SESSION, EPOCH, TAG_BYTES = 0x4A31, 1, 16
KEY = bytes(range(32))
CLASSES = ["lt-ld", "ht-ld", "lt-hd", "ht-hd"]
FRAMES = {"PAD": 0x80, "ACK": 0x81, "COPY": 0x82, "FLOOR": 0x83, "GENERATION": 0x84, "CONFIRM": 0x85, "REFUSE": 0x86, "FRAGMENT": 0x87,
          "CHALLENGE": 0x88, "RESPONSE": 0x89, "ANNOUNCE": 0x8A, "PING": 0x8C, "CLOSED": 0x8D, "CAPS": 0x8E,
          "CLOSE": 0xA1, "ORDER": 0xA3}
MODES = ["raw", "raw-kept", "zstd"]


def records_of(name):
    """Records as {key: text}, {"item": [texts]}, {"hex": bytes}."""
    record = {}
    for line in [*(VECTORS / name).read_text().splitlines(), "name: end"]:
        key, separator, value = line.partition(":")
        if line.startswith("#") or not separator:
            continue
        if key == "name":
            if record:
                record["hex"] = bytes.fromhex(record.get("hex", ""))
                yield record
            record = {"item": []}
        if key == "item":
            record["item"].append(value.strip())
        else:
            record[key] = record.get(key, "") + value.strip()


# --- The capture


def ipv4(source, destination, protocol, content):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(content), 0, 0, 64, protocol, 0, source, destination)
    return head + content


def udp(payload):
    return ipv4(NODE, SNAPT, 17, struct.pack("!HHHH", NODE_PORT, PORT, 8 + len(payload), 0) + payload)


def tcp(connection, is_up, sequence, payload):
    """A segment of the connection with that number."""
    ports = (NODE_PORT + connection, PORT) if is_up else (PORT, NODE_PORT + connection)
    segment = struct.pack("!HHIIBBHHH", *ports, sequence, 1, 0x50, 0x18, 65535, 0, 0) + payload
    return ipv4(NODE if is_up else SNAPT, SNAPT if is_up else NODE, 6, segment)


# In a space that no vector names: FLOOR of its own is bounded by the datagram's number.
def sealed(body, number, path=9, klass=2):
    header = struct.pack("!BBHH", 0x20 | EPOCH << 2 | klass, path << 3, SESSION, number)
    signed = struct.pack("!HHQ", 0, klass << 7 | path << 3, number) + header + body
    return header + body + hmac.digest(KEY, signed, hashlib.sha256)[:TAG_BYTES]


def dissected(dissector, work, packets, *options):
    """What tshark shows of each packet: an element of PDML."""
    capture, keys = work / "vectors.pcap", work / "vectors.keys"
    with open(capture, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for packet in packets:
            file.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)
    keys.write_text(f"continuo_key {SESSION:04x} {EPOCH} up hmac-sha256/{TAG_BYTES} {KEY.hex()} {bytes(12).hex()}\n")
    scripts = ["-X", f"lua_script:{dissector}", "-o", f"continuo.keys_file:{keys}"]
    command = ["tshark", *options, *scripts, "-n", "-r", capture, "-T", "pdml"]
    pdml = subprocess.run(command, capture_output=True, text=True, check=True)
    if "Lua" in pdml.stderr:
        sys.exit(pdml.stderr)
    shown = xml.etree.ElementTree.fromstring(pdml.stdout).findall("packet")
    if len(shown) != len(packets):
        sys.exit(f"{len(shown)} of {len(packets)} packets shown")
    return shown


# --- What is shown: fields of ours as (name without "continuo.", value)


def value_of(field):
    """Numbers in decimal, bytes in hexadecimal, truths as 1 and 0."""
    show = field.get("show")
    if ":" in show or field.get("name") in BYTES:
        return show.replace(":", "")
    return {"True": "1", "False": "0"}.get(show, str(int(show, 16)) if show.startswith("0x") else show)


BYTES = {f"continuo.{name}" for name in ("generation.hash", "generation.listing", "fragment.piece", "token", "frame.content",
                                         "unsealed.quote", "hello.tag")}
EXPERTS = {"malformed", "leftover", "wrong_tag", "not_followed", "dissector_fault"}


def fields_of(element):
    return [(field.get("name")[9:], value_of(field)) for field in element.iter("field")
            if field.get("name", "").startswith("continuo.") and field is not element and field.get("name")[9:] not in EXPERTS]


def experts_of(element):
    return {field.get("name")[9:] for field in element.iter("field") if field.get("name", "")[9:] in EXPERTS}


def parts_of(packet):
    """[(kind, fields)] of frames and sections, in their order, and how many bytes they take in all."""
    parts, size = [], 0
    for field in packet.iter("field"):
        if field.get("name") == "continuo.frame":
            parts.append((value_of(field), fields_of(field)))
            size += int(field.get("size"))
        elif field.get("name") == "continuo.section":
            wanted = ("section.mode", "slot", "generation", "section.length")
            parts.append(("section", [entry for entry in fields_of(field) if entry[0] in wanted]))
            size += int(field.get("size"))
    return parts, size


# --- What should be shown


def space_fields(text, epoch="own"):
    klass, path, lane = text.split("/")
    before = [("frame.epoch_before", "1")] if epoch == "previous" else []
    return [("frame.class", str(CLASSES.index(klass))), ("frame.path", path), ("frame.lane", lane), *before]


def run_fields(runs):
    pairs = [run.split("-") for run in runs]
    return [("frame.run", low if low == high else f"{low} to {high}") for low, high in pairs]


def listing_fields(listed):
    spaces = {}
    for entry in listed.split(","):
        space, run = entry.rsplit(":", 1)
        spaces.setdefault(space, []).append(run)
    for space, runs in spaces.items():
        yield from [("generation.listing", None), *space_fields(space), ("frame.runs", str(len(runs))), *run_fields(runs)]


def same_names(prefix, given, *names):
    """Fields of `given` with the names of the dissector: "ours" or "ours=theirs"."""
    pairs = [name.split("=") if "=" in name else (name, name) for name in names]
    return [(prefix + ours, given[theirs]) for ours, theirs in pairs]


def expected_fields(kind, given):
    if kind in ("PING", "PAD"):
        return []
    if kind == "ACK":
        ranges = given["ranges"].split(",")
        highest = ranges[0].rstrip("r").split("-")[1]
        named = [("ack.received" if text.endswith("r") else name, value)
                 for text, (name, value) in zip(ranges, run_fields([text.rstrip("r") for text in ranges]))]
        return [*space_fields(given["space"], given["epoch"]), ("frame.sequence", highest),
                *same_names("ack.", given, "delay", "interval_ms=interval", "clock", "missing"), ("frame.runs", str(len(ranges))), *named]
    if kind in ("COPY", "FLOOR"):
        return [*space_fields(given["space"], given.get("epoch", "own")), ("frame.sequence", given["sequence"])]
    if kind == "GENERATION":
        return [*same_names("", given, "slot", "generation", "generation.oldest=oldest", "generation.base=base", "generation.keep=keep",
                            "generation.hash=hash"), *listing_fields(given["listed"])]
    if kind == "CONFIRM":
        return same_names("", given, "slot", "generation")
    if kind == "REFUSE":
        return same_names("", given, "slot", "generation", "refuse.reason=reason")
    if kind == "FRAGMENT":
        last = {"yes": "1", "no": "0"}[given["last"]]
        return [*same_names("fragment.", given, "id", "index"), ("fragment.last", last), ("fragment.piece", given["piece"])]
    if kind in ("CHALLENGE", "RESPONSE"):
        return [("token", given["token"])]
    if kind == "ANNOUNCE":
        flags = given["flags"].split("+")
        return [*same_names("announce.", given, "path", "kind", "mtu"), ("announce.active", str(int("active" in flags))),
                ("announce.copies", str(int("copy" in flags))), ("announce.withdrawn", str(int("withdrawn" in flags))),
                ("announce.number", given["number"])]
    if kind == "CLOSED":
        return [("closed.flow", index) for index in given["indexes"].split(",")]
    if kind == "CAPS":
        return same_names("caps.", given, "kept_bytes=kept", "generations=live")
    if kind == "CLOSE":
        text = bytes.fromhex(given["text"]).decode()
        return [("close.reason", given["reason"])] + ([("close.text", text)] if text else [])
    if kind == "ORDER":
        places = [place.split(":") for place in given["places"].split(",")]
        pairs = [entry for flow, number in places for entry in (("order.flow", flow), ("order.number", number))]
        return [("order.paths", given["paths"]), *pairs]
    if kind == "UNKNOWN":
        return [("frame.content", given["content"])] if given["content"] else []
    if kind == "SECTION":
        fields = [("section.mode", str(MODES.index(given["mode"]))), ("slot", given["slot"])]
        if given["mode"] == "zstd":
            fields.append(("generation", given["generation"]))
        if given["last"] == "no":
            fields.append(("section.length", str(len(given["content"]) // 2)))
        return fields
    raise KeyError(f"this test does not know {kind}")


def expected_part(item):
    kind, _, rest = item.partition(" ")
    given = dict(word.split("=", 1) for word in rest.split())
    name = "section" if kind == "SECTION" else str(int(given["type"], 16) if kind == "UNKNOWN" else FRAMES[kind])
    return name, expected_fields(kind, given)


def has_unknown_content(item):
    """Of a section that is compressed from nothing: what the vectors have there is none of zstd's."""
    return "mode=zstd" in item and "generation=0" in item


def without_unnamed(have, want):
    """`have` with values left out that `want` does not tell."""
    return [(name, None) if i < len(want) and want[i] == (name, None) else (name, value) for i, (name, value) in enumerate(have)]


# --- The comparisons: (packets, check of a shown packet that yields what is wrong) for each record


def frames(name):
    for number, record in enumerate(records_of(name)):
        def check(packet, record=record):
            parts, size = parts_of(packet)
            wanted = [expected_part(item) for item in record["item"]]
            parts = [(kind, without_unnamed(have, want[1])) for (kind, have), want in zip(parts, wanted)] + parts[len(wanted):]
            if parts != wanted:
                yield f"have {parts}\n  want {wanted}"
            if size != len(record["hex"]):
                yield f"{size} bytes of {len(record['hex'])} are read"
            excused = {"malformed", "not_followed"} if any(map(has_unknown_content, record["item"])) else \
                {"not_followed"} if any(item.startswith("SECTION") for item in record["item"]) else set()
            if experts_of(packet) - excused:
                yield f"complains: {experts_of(packet)}"
            if ("authentic", "1") not in fields_of(packet):
                yield "the tag is not found right"
            if not record["hex"] and not any(field == "keepalive" for field, _ in fields_of(packet)):
                yield "no keepalive"
        yield record["name"], [udp(sealed(record["hex"], number))], check


def void(_):
    """Bodies that are void, and whole frames with a byte too many or too few, are marked."""
    bodies = [(record["name"], record["hex"], {"malformed"}) for record in records_of("bodies_invalid.hex")]
    for record in records_of("frames.hex"):
        kind, body = record["item"][0].split()[0], record["hex"]
        if kind not in ("PAD", "CLOSE", "UNKNOWN", "PING"):
            if not (kind == "FRAGMENT" and "counted=no" in record["item"][0]):
                bodies.append((record["name"] + ", cut", body[:-1], {"malformed"}))
        if kind == "ORDER":  # PROTOCOL 3.4: ignored, so no fault of the sender, but not of this version either
            more = body[:1] + bytes([body[1] + 3]) + body[2:] + b"abc"
            bodies.append((record["name"] + ", with more behind", more, {"leftover"}))
        if kind == "GENERATION":
            at = 4 if body[1] < 0x80 else 5
            more = body[:at] + bytes([body[at] + 1]) + body[at + 1:] + b"\x7f"
            bodies.append((record["name"] + ", with more behind", more, {"malformed"}))
    bodies.append(("floor above the datagram's own number", bytes.fromhex("8329ff7f"), {"malformed"}))
    for number, (name, body, wanted) in enumerate(bodies):
        def check(packet, wanted=wanted):
            have = experts_of(packet) - {"not_followed"}
            if have != wanted:
                yield f"have {have or 'no complaint'}, want {wanted}"
            if any(name == "frame.content" for name, _ in fields_of(packet)) and "leftover" in wanted:
                yield "shown as content"
        yield name, [udp(sealed(body, number))], check


def headers(_):
    for record in records_of("tunnel_header.hex"):
        def check(packet, record=record):
            fields = dict(fields_of(packet))
            error = record.get("error")
            if error is None:
                wanted = {"version": "2", "epoch": record["epoch"], "class": str(CLASSES.index(record["class"])),
                          "path": str(int(record["path"], 16)), "lane": record["lane"], "session": str(int(record["session_id"], 16)),
                          "long": str(int(record["long"] == "yes")), "sequence_wire": str(int(record["sequence"], 16)), "sealed": None}
                for name, value in wanted.items():
                    if name not in fields or value not in (None, fields[name]):
                        yield f"{name} is {fields.get(name)}, not {value}"
            elif error == "truncated" and record["hex"] and "malformed" not in experts_of(packet):
                yield "not told as cut"
            elif error == "unsupported" and "version" in fields:
                yield "of an unknown version, but read"
            elif error == "unsealed" and "unsealed.type" not in fields:
                yield "not read as unsealed"
        yield record["name"], [udp(record["hex"] + (bytes(16) if "error" not in record else b""))], check


def unsealed(_):
    for record in records_of("unsealed.hex"):
        def check(packet, record=record):
            if "message" not in record:
                if "malformed" not in experts_of(packet) and record["hex"]:
                    yield "not told as malformed"
                return
            kind, _, rest = record["message"].partition(" ")
            given = dict(word.split("=", 1) for word in rest.split())
            wanted = [("version", "0"), ("unsealed.type", {"VERSIONS": "1", "UNKNOWN": "2"}[kind])]
            if kind == "VERSIONS":
                wanted.append(("unsealed.quote", given["quote"]))
                wanted += [("unsealed.supported", version) for version in given["supported"].split(",")]
            else:
                wanted += [("unsealed.reason", given["reason"]), ("unsealed.quote", given["quote"])]
            if fields_of(packet) != wanted or experts_of(packet):
                yield f"have {fields_of(packet)} {experts_of(packet) or ''}\n  want {wanted}"
        yield record["name"], [udp(record["hex"])], check


def in_record(content):
    return struct.pack("!H", len(content)) + content


def hello(_):
    """HELLO records, each the first of a connection."""
    rows = [record for record in records_of("tcp_record.hex") if "hello" in record or "hello_error" in record]
    for connection, record in enumerate(rows):
        def check(packet, record=record):
            fields = fields_of(packet)
            if "hello" not in record:
                if "malformed" not in experts_of(packet):
                    yield "not told as malformed"
                return
            given = dict(word.split("=", 1) for word in record["hello"].split())
            wanted = [("record.length", str(len(record["hex"]))), ("version", "0"), ("unsealed.type", "3"),
                      ("hello.version", given["version"]), ("hello.epoch", given["epoch"]), ("session", str(int(given["session_id"], 16))),
                      ("hello.number", str(int(given["number"], 16))), ("hello.tag", given["tag"])]
            if fields != wanted or experts_of(packet) - {"wrong_tag"}:
                yield f"have {fields} {experts_of(packet) or ''}\n  want {wanted}"
        yield record["name"], [tcp(connection, True, 1, in_record(record["hex"]))], check


def first_hello():
    signed = struct.pack("!BBBHI", 3, 2, EPOCH, SESSION, 7)
    return in_record(signed + hmac.digest(KEY, b"continuo hello" + signed, hashlib.sha256)[:TAG_BYTES])


def lengths_of(packet):
    return [value for name, value in fields_of(packet) if name == "record.length"]


def is_record(packet):
    return any(field.get("name", "").startswith("continuo") for field in (*packet.iter("field"), *packet.iter("proto")))


def records(_):
    """Records of the vectors behind a HELLO; then segments that cut and join records, and what else comes to the port."""
    at = 1 + len(first_hello())
    rows = [record for record in records_of("tcp_record.hex") if "content" in record or "error" in record]
    for connection, record in enumerate(rows):
        def check_hello(packet):
            if ("authentic", "1") not in fields_of(packet) or experts_of(packet):
                yield f"its HELLO: {fields_of(packet)} {experts_of(packet)}"

        def check(packet, record=record):
            error = record.get("error")
            if error == "truncated" and lengths_of(packet):
                yield f"is read, though it is not whole: {lengths_of(packet)}"
            elif error == "malformed" and "malformed" not in experts_of(packet):
                yield "not told as malformed"
            elif error is None and lengths_of(packet) != [str(len(record["content"]) // 2)]:
                yield f"lengths {lengths_of(packet)}"
        stream = [tcp(100 + connection, True, 1, first_hello()), tcp(100 + connection, True, at, record["hex"])]
        yield record["name"], stream, check_hello, check

    ping = sealed(bytes.fromhex("8c"), 0, 15)
    response = sealed(bytes.fromhex("890a0b0c0d0e0f1011"), 1, 15)
    closed = sealed(bytes.fromhex("8d0105"), 2, 15)

    def shows(count, *wanted):
        def check(packet):
            have = [entry for entry in fields_of(packet) if entry[0] in ("frame", "token", "closed.flow")]
            if len(lengths_of(packet)) != count or have != list(wanted):
                yield f"{len(lengths_of(packet))} records, not {count}: {have}\n  want {list(wanted)}"
            if [value for name, value in fields_of(packet) if name == "authentic"] != ["1"] * count or experts_of(packet):
                yield f"not right: {experts_of(packet)}"
        return check

    def shows_nothing(packet):
        if lengths_of(packet):
            yield f"shows records: {lengths_of(packet)}"
    stream, packets, from_byte = in_record(ping) + in_record(response) + in_record(closed), [tcp(200, True, 1, first_hello())], at
    for upto in (1, 9, len(ping) + 5, len(stream)):
        begin = from_byte - at
        packets.append(tcp(200, True, from_byte, stream[begin:upto]))
        from_byte = at + upto
    yield "records over four segments", packets, lambda packet: (), shows_nothing, shows_nothing, \
        shows(1, ("frame", "140")), shows(2, ("frame", "137"), ("token", "0a0b0c0d0e0f1011"), ("frame", "141"), ("closed.flow", "5"))
    yield "three records in a segment, of a capture that begins there", [tcp(201, True, 1000, stream)], \
        shows(3, ("frame", "140"), ("frame", "137"), ("token", "0a0b0c0d0e0f1011"), ("frame", "141"), ("closed.flow", "5"))

    packets = [tcp(205, True, 1, first_hello()), tcp(205, True, at, bytes(2)), tcp(205, True, at + 2, in_record(ping))]
    yield "what follows a length that ends the connection", packets, lambda packet: (), lambda packet: (), shows_nothing

    def is_other(protocol):
        def check(packet):
            if is_record(packet) or packet.find(f"proto[@name='{protocol}']") is None:
                yield f"not shown as {protocol}, but {[proto.get('name') for proto in packet.findall('proto')]}"
        return check
    hello_of_tls = bytes.fromhex("16030100310100002d0303") + bytes(32) + bytes.fromhex("000002130301000002002b") + bytes(2)
    yield "TLS", [tcp(202, True, 1, hello_of_tls)], is_other("tls")
    yield "the question of a portal", [tcp(203, True, 1, b"GET /continuo HTTP/1.1\r\nHost: a\r\n\r\n")], is_other("http")

    def has_no_hello(packet):
        if "malformed" not in experts_of(packet):
            yield "a HELLO of the SNAPT is not told as malformed"
    yield "a HELLO of the SNAPT", [tcp(204, True, 1, first_hello()), tcp(204, False, 1, first_hello())], lambda packet: (), has_no_hello


GROUPS = {"headers": headers, "frames": lambda _: frames("frames.hex"), "bodies": lambda _: frames("bodies.hex"), "void": void,
          "unsealed": unsealed, "hello": hello, "records": records}


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in GROUPS:
        sys.exit(__doc__)
    rows = list(GROUPS[sys.argv[1]](None))
    packets = [packet for _, packets, *_ in rows for packet in packets]
    wrong = set()
    for options in ((), ("-2",)):  # once each, as tshark does; twice, as Wireshark does
        shown = iter(dissected(sys.argv[2], pathlib.Path(sys.argv[3]), packets, *options))
        for name, _, *checks in rows:
            faults = [fault for check in checks for fault in check(next(shown))]
            if faults:
                wrong.add(name)
                print(f"{name}{' (second pass)' if options else ''}:", *faults, sep="\n  ")
    print(f"{len(rows) - len(wrong)} of {len(rows)} are shown right")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
