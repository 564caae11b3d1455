// RocksDB's files as read at a start and by fsck: a log with flipped bits, truncated, or of any bytes. The first byte
// selects: any bytes as a log; or a log of whole batches, in which the rest of the input selects bits to flip and where
// to cut it. Only whole batches are accepted: one that was not written never comes out.
#include <cstdlib>
#include <set>

#include "base/checksum.h"
#include "store/local/index_check.h"
#include "store/local/log_scan.h"
#include "store/local/test_faulty_file_system.h"

namespace {

using namespace verbena;
using namespace verbena::store::local;

void put(FaultyFileSystem& fs, const std::string& path, std::string_view bytes) {
  auto file = fs.open(path, {.write = true, .create = true, .truncate = true});
  if (!file || !write_fully(**file, as_bytes(bytes), 0)) std::abort();
}

std::string little_endian(uint64_t value, size_t size) {
  std::string out;
  for (size_t i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

void append_piece(std::string& log, uint8_t type, std::string_view bytes) {
  std::string body(1, static_cast<char>(type));
  body += bytes;
  const uint32_t crc = crc32c(as_bytes(body));
  log += little_endian(((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4);
  log += little_endian(bytes.size(), 2);
  log += body;
}

void append_record(std::string& log, std::string_view record) {
  constexpr size_t block = 32768, header = 7;
  for (bool begun = false;;) {
    size_t left = block - log.size() % block;
    if (left < header) {
      log.append(left, '\0');
      left = block;
    }
    const size_t n = std::min(left - header, record.size());
    const bool ends = n == record.size();
    append_piece(log, begun ? (ends ? 4 : 3) : (ends ? 1 : 2), record.substr(0, n));
    record.remove_prefix(n);
    begun = true;
    if (ends) return;
  }
}

struct Written {
  std::string log;
  std::set<std::string> records;
};

// Batches of one change each, each marked as if all before it were durable; one of them crosses blocks.
Written make_log() {
  Written out;
  for (uint64_t sequence = 1; sequence <= 12; ++sequence) {
    const std::string value(sequence == 6 ? 40'000 : 50 * sequence, static_cast<char>('a' + sequence));
    std::string batch = little_endian(sequence, 8) + little_endian(1, 4);
    batch += std::string("\x01\x01k", 3);
    size_t length = value.size();
    for (; length >= 0x80; length >>= 7) batch += static_cast<char>(length | 0x80);
    batch += static_cast<char>(length);
    batch += value;
    const std::string mark = log_mark(sequence - 1);
    batch += '\x03';
    batch += static_cast<char>(mark.size());
    batch += mark;
    append_record(out.log, batch);
    out.records.insert(batch);
  }
  return out;
}

void check(const std::string& log, const std::set<std::string>* known) {
  FaultyFileSystem fs;
  if (!fs.make_directory("/index")) std::abort();
  put(fs, "/index/CURRENT", "MANIFEST-000004\n");
  put(fs, "/index/MANIFEST-000004", "");
  put(fs, "/index/000005.log", log);
  size_t told = 0;
  const auto behind = [&](std::string_view batch) {
    ++told;
    if (known != nullptr && !known->contains(std::string(batch))) std::abort();
  };
  const auto report = check_index_files(fs, "/index", [] { return Result<uint64_t>(0); }, behind);
  if (!report) std::abort();
  if (report->torn_end && report->log_damaged) std::abort();
  if (known == nullptr) return;
  if (told != report->changes_behind) std::abort();
  size_t whole = 0;
  auto file = fs.open("/index/000005.log", {});
  const auto damage = scan_log(**file, [&](const LogRecord& record, const LogDamage* before) {
    if (before == nullptr) ++whole;
    if (!known->contains(std::string(record.bytes))) std::abort();
  });
  if (!damage) std::abort();
  // Either everything is recovered, or the loss is reported (a log that ends between two records looks whole).
  if (!*damage && whole != known->size() && log.size() >= make_log().log.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 0) {
    check(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), nullptr);
    return 0;
  }
  static const Written written = make_log();
  std::string log = written.log;
  const auto number = [&](size_t at) { return static_cast<size_t>(data[at] | data[at + 1] << 8 | data[at + 2] << 16); };
  for (size_t at = 1; at + 4 <= size && at < 33; at += 4) {
    if (data[at + 3] % 16 == 15) {
      log.resize(std::min(log.size(), number(at)));
    } else if (!log.empty()) {
      log[number(at) % log.size()] ^= static_cast<char>(1 << data[at + 3] % 8);
    }
  }
  check(log, &written.records);
  return 0;
}
