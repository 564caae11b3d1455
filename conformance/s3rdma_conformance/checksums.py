"""CRC64NVME and CRC32C as S3 writes them: base64 of the big-endian number."""
import base64


def table(polynomial):
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
        rows.append(byte)
    return rows


CRC64NVME, CRC32C = table(0x9A6C9329AC4BC9B5), table(0x82F63B78)


def crc(rows, bits, data):
    ones = (1 << bits) - 1
    value = ones
    for byte in data:
        value = value >> 8 ^ rows[(value ^ byte) & 0xFF]
    return base64.b64encode((value ^ ones).to_bytes(bits // 8, "big")).decode()


def crc64nvme(data):
    return crc(CRC64NVME, 64, data)


def crc32c(data):
    return crc(CRC32C, 32, data)
