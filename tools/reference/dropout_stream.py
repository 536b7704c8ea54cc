"""The random numbers behind dropout masks, from the definitions of BLAKE3 and ChaCha and from nothing of ours.

A mask belongs to the 32-byte key of a step and to a site in the network (one for each attention layer, one for each
draw of the decoder). Its stream is ChaCha12 keyed with the keyed BLAKE3 hash of the site as eight bytes, little-endian;
each uniform number is the upper 53 bits of eight bytes of it. A value is dropped where its number is below the rate.
"""

import struct

import numpy as np

WORDS = 0xFFFFFFFF
BLAKE_IV = [0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19]
BLAKE_ORDER = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8]
ONE_CHUNK, ROOT, KEYED = 1 | 2, 8, 16
COLUMNS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
DIAGONALS = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


def turn_right(x: int, bits: int) -> int:
    return (x >> bits | x << (32 - bits)) & WORDS


def keyed_blake3(key: bytes, message: bytes) -> bytes:
    """Of a message of at most one block."""
    assert len(message) <= 64
    words = list(struct.unpack("<16I", message.ljust(64, b"\0")))
    chaining = list(struct.unpack("<8I", key))
    state = chaining + BLAKE_IV[:4] + [0, 0, len(message), ONE_CHUNK | ROOT | KEYED]
    for _ in range(7):
        for index, (a, b, c, d) in enumerate(COLUMNS + DIAGONALS):
            for word, first, second in ((words[2 * index], 16, 12), (words[2 * index + 1], 8, 7)):
                state[a] = (state[a] + state[b] + word) & WORDS
                state[d] = turn_right(state[d] ^ state[a], first)
                state[c] = (state[c] + state[d]) & WORDS
                state[b] = turn_right(state[b] ^ state[c], second)
        words = [words[place] for place in BLAKE_ORDER]
    return struct.pack("<8I", *(x ^ y for x, y in zip(state[:8], state[8:])))


def chacha12(key: bytes, count: int) -> bytes:
    """The first bytes of the stream of a key, at nonce 0."""
    out = b""
    for block in range(-(-count // 64)):
        start = list(struct.unpack("<4I", b"expand 32-byte k")) + list(struct.unpack("<8I", key)) + [block, 0, 0, 0]
        state = start.copy()
        for _ in range(6):
            for a, b, c, d in COLUMNS + DIAGONALS:
                for into, other, mixed, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                    state[into] = (state[into] + state[other]) & WORDS
                    state[mixed] = turn_right(state[mixed] ^ state[into], 32 - bits)
        out += struct.pack("<16I", *((x + y) & WORDS for x, y in zip(state, start)))
    return out[:count]


def kept(key: bytes, site: int, rate: float, shape: tuple[int, ...]) -> np.ndarray:
    """0 where a value is dropped, else 1 / (1 - rate) rounded to single precision."""
    count = int(np.prod(shape))
    stream = chacha12(keyed_blake3(key, struct.pack("<Q", site)), 8 * count)
    uniform = (np.frombuffer(stream, dtype="<u8") >> np.uint64(11)) * 2.0**-53
    return np.where(uniform < rate, 0.0, float(np.float32(1 / (1 - rate)))).reshape(shape)
