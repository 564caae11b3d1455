#include "store/local/index_check.h"

#include <fmt/format.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "store/local/log_scan.h"

namespace verbena::store::local {
namespace {

constexpr std::string_view mark_head = "vbs1";
constexpr char mark_tail = 'V';  // no zero: the last byte of a sector that was written
constexpr size_t batch_header_size = 12;

uint64_t little_endian(std::string_view bytes) {
  uint64_t v = 0;
  for (size_t i = bytes.size(); i-- > 0;) v = v << 8 | static_cast<uint8_t>(bytes[i]);
  return v;
}

std::optional<uint64_t> parse_mark(std::string_view blob) {
  if (blob.size() != mark_head.size() + 8 + 1 || !blob.starts_with(mark_head) || blob.back() != mark_tail) {
    return std::nullopt;
  }
  return little_endian(blob.substr(mark_head.size(), 8));
}

// Reads the contents of a batch that follows damage.
class BatchReader final : public rocksdb::WriteBatch::Handler {
 public:
  rocksdb::Status PutCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override { return {}; }
  rocksdb::Status DeleteCF(uint32_t, const rocksdb::Slice&) override { return {}; }
  void LogData(const rocksdb::Slice& blob) override {
    if (auto found = parse_mark({blob.data(), blob.size()})) mark = found;
  }
  std::optional<uint64_t> mark;
};

struct BatchHeader {
  uint64_t sequence = 0;
  uint32_t count = 0;
};

std::optional<BatchHeader> parse_header(std::string_view batch) {
  if (batch.size() < batch_header_size) return std::nullopt;
  return BatchHeader{little_endian(batch.substr(0, 8)), static_cast<uint32_t>(little_endian(batch.substr(8, 4)))};
}

std::optional<uint64_t> log_number(std::string_view name) {
  uint64_t number = 0;
  const auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (ec != std::errc() || std::string_view(end, static_cast<size_t>(name.data() + name.size() - end)) != ".log") {
    return std::nullopt;
  }
  return number;
}

// The write-ahead logs, in their order.
class Logs {
 public:
  Logs(FileSystem& fs, std::filesystem::path directory, const BatchBehind& tell)
      : fs_(fs), directory_(std::move(directory)), tell_(tell) {}

  Result<void> scan(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      file_ = directory_ / name;
      VB_ASSIGN(auto file, fs_.open(file_, {}));
      const auto visit = [this](const LogRecord& record, const LogDamage* before) { take(record, before); };
      VB_ASSIGN(const auto damage, scan_log(*file, visit));
      if (damage && !first_) found(*damage);
    }
    return {};
  }

  // Whether durable changes are damaged.
  bool broken() const { return first_ && (!first_->torn || proven_); }
  bool torn() const { return first_.has_value() && !broken(); }
  const IndexDamage& where() const { return where_; }
  uint64_t changes_behind() const { return changes_behind_; }

 private:
  void found(const LogDamage& damage) {
    first_ = damage;
    where_ = {file_, damage.offset, damage.what};
  }

  void take(const LogRecord& record, const LogDamage* before) {
    if (before != nullptr && !first_) found(*before);
    const auto header = parse_header(record.bytes);
    if (header && header->count == 0) return;  // written by RocksDB itself after a recovery
    if (!first_ && !header) found({record.offset, "a record is no batch of changes", false});
    // Changes are numbered without gaps. (Between two logs some may never have been logged, see Index::recover(); then
    // the first of the logs is not needed any more.)
    if (!first_ && known_ && header->sequence != expected_) {
      found({record.offset, "changes are missing before it", false});
    }
    if (first_) {
      if (header) behind(record);
      return;
    }
    expected_ = header->sequence + header->count;
    known_ = true;
  }

  void behind(const LogRecord& record) {
    BatchReader reader;
    const rocksdb::WriteBatch batch{std::string(record.bytes)};
    if (!batch.Iterate(&reader).ok()) return;
    ++changes_behind_;
    if (tell_) tell_(record.bytes);
    // Batches of older servers have no mark: everything before a whole one counts as durable.
    if (!reader.mark || *reader.mark >= expected_) proven_ = true;
  }

  FileSystem& fs_;
  const std::filesystem::path directory_;
  const BatchBehind& tell_;
  std::filesystem::path file_;
  bool known_ = false;     // a record was read
  uint64_t expected_ = 0;  // the sequence number of the next change
  std::optional<LogDamage> first_;
  IndexDamage where_;
  bool proven_ = false;
  uint64_t changes_behind_ = 0;
};

Result<void> check_logs(FileSystem& fs, const std::filesystem::path& directory, std::vector<std::string> names,
                        const std::function<Result<uint64_t>()>& first_log_needed, const BatchBehind& behind,
                        IndexFiles& report) {
  const bool tables = std::ranges::any_of(names, [](const std::string& name) { return name.ends_with(".sst"); });
  std::erase_if(names, [](const std::string& name) { return !log_number(name); });
  std::ranges::sort(names, {}, [](const std::string& name) { return *log_number(name); });
  if (tables && names.empty()) {  // every start makes one before it removes those before
    report.log_damaged = true;
    report.damage.push_back({directory, 0, "there is no log (NUMBER.log) where the newest changes were"});
    return {};
  }
  const BatchBehind untold;
  Logs logs(fs, directory, untold);
  VB_TRY(logs.scan(names));
  if (!logs.broken()) {
    report.torn_end = logs.torn();
    return {};
  }
  // A log whose changes are all in tables may remain after a crash, damaged or not.
  if (const auto needed = first_log_needed()) {
    std::erase_if(names, [&](const std::string& name) { return *log_number(name) < *needed; });
  }
  Logs needed(fs, directory, behind);
  VB_TRY(needed.scan(names));
  report.torn_end = needed.torn();
  if (!needed.broken()) return {};
  report.log_damaged = true;
  report.changes_behind = needed.changes_behind();
  report.damage.push_back(needed.where());
  return {};
}

// RocksDB takes a length that reaches past the end of the manifest for a torn end, and drops tables because of it.
Result<void> check_manifest(FileSystem& fs, const std::filesystem::path& directory, const std::string& name,
                            IndexFiles& report) {
  const auto path = directory / name;
  auto file = fs.open(path, {});
  if (!file && file.error() == Errc::not_found) {
    report.damage.push_back({path, 0, "the file is missing, and CURRENT names it"});
    return {};
  }
  if (!file) return std::unexpected(file.error());
  bool behind = false;
  VB_ASSIGN(const auto damage,
            scan_log(**file, [&](const LogRecord&, const LogDamage* before) { behind |= before != nullptr; }));
  if (damage && (behind || !damage->torn)) report.damage.push_back({path, damage->offset, damage->what});
  return {};
}

bool is_trace(const std::string& name) {
  // An interrupted first start leaves only MANIFEST-000001.
  return name.ends_with(".sst") || log_number(name).has_value() ||
         (name.starts_with("MANIFEST-") && name != "MANIFEST-000001");
}

}  // namespace

std::string log_mark(uint64_t durable_sequence) {
  std::string mark(mark_head);
  for (int i = 0; i < 8; ++i) mark += static_cast<char>(durable_sequence >> (8 * i));
  return mark + mark_tail;
}

Result<IndexFiles> check_index_files(FileSystem& fs, const std::filesystem::path& directory,
                                     const std::function<Result<uint64_t>()>& first_log_needed,
                                     const BatchBehind& behind) {
  IndexFiles report;
  auto names = fs.list(directory);
  if (!names && names.error() == Errc::not_found) {
    report.fresh = true;
    return report;
  }
  if (!names) return std::unexpected(names.error());
  auto current = read_small_file(fs, directory / "CURRENT", 1 * KiB);
  if (!current && current.error() == Errc::not_found) {
    report.fresh = std::ranges::none_of(*names, is_trace);
    if (!report.fresh) report.damage.push_back({directory / "CURRENT", 0, "the file is missing"});
    return report;
  }
  if (!current && current.error() == Errc::too_large) current = std::string();
  if (!current) return std::unexpected(current.error());
  if (!current->starts_with("MANIFEST-") || !current->ends_with('\n') || current->find('/') != std::string::npos) {
    report.damage.push_back({directory / "CURRENT", 0, "it names no manifest"});
    return report;
  }
  current->pop_back();
  VB_TRY(check_manifest(fs, directory, *current, report));
  if (!report.damage.empty()) return report;
  VB_TRY(check_logs(fs, directory, std::move(*names), first_log_needed, behind, report));
  return report;
}

}  // namespace verbena::store::local
