#!/usr/bin/python3
"""What a cut may leave of a write: any sectors of it, but those blocks as a whole that the file system needs whole."""
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import disk  # noqa: E402

SECTOR, BLOCK = 512, disk.WHOLE_BLOCK


def recording(folder, kind, offset, data):
    """One write that was never answered."""
    path = pathlib.Path(folder) / "log"
    path.write_bytes(disk.RECORD.pack(disk.WRITE_BEGIN, 1, 0, offset, len(data)) + data)
    return disk.Recording(path, kind)


def states(kind, offset, data):
    """For each of many cuts the sectors that are there."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = recording(folder, kind, offset, data)
        found = [set(disk.sectors_of(recorded, recorded.writes[0], SECTOR, random.Random(seed))) for seed in range(200)]
        recorded.file.close()
        return found


def torn(found, at):
    """Whether a state has a part of that block alone."""
    inside = set(range(at, at + BLOCK, SECTOR))
    return any(state & inside and not inside <= state for state in found)


class Torn(unittest.TestCase):
    def test_a_block_of_bytes_is_torn_on_every_file_system(self):
        for kind in disk.MAKE:
            self.assertTrue(torn(states(kind, 1 << 20, bytes(2 * BLOCK)), BLOCK), kind)

    def test_a_superblock_is_not(self):
        for kind, blocks in disk.WHOLE.items():
            for block in blocks:
                found = states(kind, max(0, block - BLOCK), bytes(3 * BLOCK))
                self.assertFalse(torn(found, min(block, BLOCK)), kind)
                self.assertTrue(torn(found, min(block, BLOCK) + BLOCK), kind)

    def test_a_directory_of_xfs_is_not(self):
        # Of this block the first sectors were of its newest state and the last of the one before: no mount (a recovery,
        # cut 1 of seed 1001000).
        directory = b"XDB3" + bytes(BLOCK - 4)
        leaf = bytes(8) + b"\x3d\xff" + bytes(BLOCK - 10)
        data = directory + bytes(BLOCK) + leaf
        found = states("xfs", 1 << 20, data)
        self.assertEqual([torn(found, at) for at in (0, BLOCK, 2 * BLOCK)], [False, True, False])
        self.assertTrue(torn(states("ext4", 1 << 20, data), 0))

    def test_blocks_begin_at_blocks_of_the_disk(self):
        data = bytes(SECTOR) + b"XDB3" + bytes(2 * BLOCK)
        self.assertFalse(torn(states("xfs", (1 << 20) - SECTOR, data), SECTOR))
        self.assertTrue(torn(states("xfs", 1 << 20, data), 0))


if __name__ == "__main__":
    unittest.main()
