#include "store/local/dax_node.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/kernel_files.h"
#include "store/local/pmem_log_top.h"
#include "store/local/pmem_stand_in.h"

namespace verbena::store::local {
namespace {

constexpr uint64_t bad_block_size = 512;                 // the unit of bad blocks
constexpr uint64_t log_at = 4096;                        // in the node
constexpr uint64_t mark_of_a_node = 0x31474f4c58414456;  // "VDAXLOG1"

struct NodeTop {
  uint64_t mark = 0, log_size = 0;
  uint32_t check = 0, unused = 0;
  uint32_t right_check() const { return crc32c(std::as_bytes(std::span(&log_size, 1))); }
};

std::atomic<const DaxStandIn*> dax_stand_in = nullptr;

std::filesystem::path sys_root() {
  const DaxStandIn* const other = dax_stand_in;
  return other != nullptr ? other->sys : "/sys";
}

// Of a node; none: it is none.
std::optional<dev_t> device_number(const struct stat& is) {
  if (S_ISCHR(is.st_mode)) return is.st_rdev;
  if (dax_stand_in.load() != nullptr && S_ISREG(is.st_mode)) return makedev(0, 0);
  return std::nullopt;
}

// "2147483648" and "0x100000000".
std::optional<uint64_t> number_in(const std::filesystem::path& file) {
  const std::string text = first_line(file);
  const bool hexadecimal = text.starts_with("0x");
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + (hexadecimal ? 2 : 0), end, number, hexadecimal ? 16 : 10);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

// The region of the kernel's NVDIMM subsystem in which a device is; empty: it is in none, as memory of a CXL region
// that forgets, or what the firmware calls soft-reserved (drivers/dax/hmem).
std::filesystem::path region_of(const std::filesystem::path& device) {
  std::error_code unknown;
  std::filesystem::path folder = std::filesystem::canonical(device, unknown);
  for (; !unknown && folder.has_relative_path(); folder = folder.parent_path()) {
    const std::string type = first_line(folder / "devtype");
    if (type == "nd_pmem" || type == "nd_volatile") return folder;
  }
  return {};
}

uint64_t bad_bytes_of(const std::filesystem::path& device, const std::filesystem::path& region, uint64_t size) {
  const auto begin = number_in(device / "resource"), of_region = number_in(region / "resource");  // root's to read
  if (!begin || !of_region || *begin < *of_region) return bad_bytes(region / "badblocks");
  return bad_bytes(region / "badblocks", *begin - *of_region, *begin - *of_region + size);
}

enum class Use : uint8_t { look, write, own };  // own: locked

struct OpenNode {
  PmemPlace place;
  DaxFacts facts;
  Fd node, lock;
  Use use = Use::look;
  // The length of a mapping that has the first so many bytes.
  uint64_t mapped(uint64_t bytes) const { return (bytes + facts.alignment - 1) / facts.alignment * facts.alignment; }
  // By division: a size from outside must not make a sum that is too large.
  bool has_room_for(uint64_t log_size) const {
    return log_size / log_at < facts.size / log_at && mapped(log_at + log_size) <= facts.size;
  }
};

std::string node_name(const std::filesystem::path& path) { return "data.pmem: " + path.string(); }

std::string why_node_not_opened(int error) {
  if (error == EACCES || error == EPERM) return " may not be opened: give it to the server's user by a rule of udev";
  return " cannot be opened";
}

Result<void> check_facts(const DaxFacts& facts, const std::filesystem::path& path, std::string& trouble) {
  VB_TRY(check_line_write_back(trouble));
  if (!facts.persistent) return refuse_memory(trouble, node_name(path) + ": " + facts.kept, 0, Errc::unsupported);
  if (facts.size == 0 || facts.alignment < 4096 || !std::has_single_bit(facts.alignment)) {
    return refuse_memory(trouble, node_name(path) + " does not tell its size or its alignment", 0, Errc::unsupported);
  }
  return {};
}

// Locked against other names of the same device, too: their inodes are others, that in sysfs is one.
Result<void> lock_node(OpenNode& open, const std::filesystem::path& device, std::string& trouble) {
  open.lock = Fd(::open((device / "size").c_str(), O_RDONLY | O_CLOEXEC));
  if (!open.lock)
    return refuse_memory(trouble, node_name(open.place.path) + why_node_not_opened(errno), errno, Errc::io_error);
  const std::string in_use = node_name(open.place.path) + " is in use by another server";
  if (::flock(open.node.get(), LOCK_EX | LOCK_NB) != 0)
    return refuse_memory(trouble, in_use, errno, Errc::service_unavailable);
  if (::flock(open.lock.get(), LOCK_EX | LOCK_NB) == 0) return {};
  return refuse_memory(trouble,
                       fmt::format("{} by another name, or another process has the lock of {}, which every user may "
                                   "take (fuser tells which one)",
                                   in_use, (device / "size").string()),
                       errno, Errc::service_unavailable);
}

std::filesystem::path device_of(dev_t number) {
  return sys_root() / "dev/char" / fmt::format("{}:{}", major(number), minor(number));
}

// Before it is opened: of some character devices that alone does something (a watchdog begins to count).
Result<dev_t> dax_number(const std::filesystem::path& path, std::string& trouble) {
  struct stat is{};
  if (::stat(path.c_str(), &is) != 0)
    return refuse_memory(trouble, node_name(path) + why_node_not_opened(errno), errno, Errc::io_error);
  const auto number = device_number(is);
  std::error_code unknown;
  if (!number || std::filesystem::canonical(device_of(*number) / "subsystem", unknown).filename() != "dax")
    return refuse_memory(trouble, node_name(path) + " is a character device that is no device-dax node", 0,
                         Errc::unsupported);
  return *number;
}

Result<OpenNode> open_node(const std::filesystem::path& path, Use use, std::string& trouble) {
  VB_ASSIGN(const dev_t number, dax_number(path, trouble));
  OpenNode open{.place = {.path = path, .is_node = true}, .facts = {}, .node = {}, .lock = {}};
  open.use = use;
  open.node = Fd(::open(path.c_str(), (use == Use::look ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK));
  if (!open.node) return refuse_memory(trouble, node_name(path) + why_node_not_opened(errno), errno, Errc::io_error);
  struct stat is{};
  if (::fstat(open.node.get(), &is) != 0) return refuse_memory(trouble, node_name(path), errno, Errc::io_error);
  if (device_number(is) != number)
    return refuse_memory(trouble, node_name(path) + " has become another device", 0, Errc::unsupported);
  const auto device = device_of(number);
  open.facts = dax_facts(device);
  VB_TRY(check_facts(open.facts, path, trouble));
  if (use == Use::own) VB_TRY(lock_node(open, device, trouble));
  return open;
}

// The bytes [begin, begin + size) of the node, which has them. The mapping takes over what is open.
Result<std::unique_ptr<MappedMemory>> map_node(OpenNode& open, uint64_t begin, uint64_t size, std::string& trouble) {
  const uint64_t length = open.mapped(begin + size);
  const int rights = open.use == Use::look ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const at = ::mmap(nullptr, length, rights, MAP_SHARED, open.node.get(), 0);
  if (at == MAP_FAILED)
    return refuse_memory(trouble, node_name(open.place.path) + " cannot be mapped", errno, Errc::io_error);
  const MappedMemory::Mapping mapping{
      .base = static_cast<std::byte*>(at), .length = length, .begin = begin, .size = size};
  return std::make_unique<MappedMemory>(open.place, std::move(open.node), mapping, std::move(open.lock));
}

constexpr uint64_t size_of_tops = 2 * log_at;  // the node's own page, and the log's

struct NodeState {
  uint64_t log_size = 0;  // 0: it is not formatted
  bool is_held = false;   // the log behind the node's own page
  // Sentences without their stop; empty: the node's own page is as it should be, or there is none.
  std::string defect;
  Errc as = Errc::corrupt_object;
  uint64_t log_behind = 0;  // of which that page can be written again
};

// `node` has both tops.
NodeState state_of(const PersistentMemory& node, const OpenNode& open) {
  NodeState state;
  const auto log = look_at_pmem_log(node, log_at);
  state.is_held = log && log->is_held;
  std::array<std::byte, log_at> page{}, nothing{};
  NodeTop top;
  const bool is_read = node.load(page, 0);
  std::memcpy(&top, page.data(), sizeof top);
  const bool is_marked = is_read && top.mark == mark_of_a_node;
  if (is_marked && top.check == top.right_check() && top.log_size != 0 && top.log_size % log_at == 0) {
    if (!open.has_room_for(top.log_size)) {
      state.defect = fmt::format("has {}, and its log was made with {}: the namespace has shrunk",
                                 format_size(open.facts.size), format_size(top.log_size));
      return state;
    }
    state.log_size = top.log_size;
    return state;
  }
  // Of a page of ours the rest is zeros: one with other bytes is not ours.
  const bool may_be_ours =
      !is_read || is_marked || std::memcmp(page.data() + sizeof top, nothing.data(), log_at - sizeof top) == 0;
  const bool is_whole = log && log->size != 0 && log->size % log_at == 0 && open.has_room_for(log->size);
  if (may_be_ours && is_whole) state.log_behind = log->size;
  if (is_read && !is_marked && state.log_behind == 0) return state;
  state.defect = is_read ? "is damaged at its beginning" : "cannot be read at its beginning";
  if (!is_read) state.as = Errc::io_error;
  if (state.log_behind == 0) {
    state.defect += ". Objects that were acknowledged may be there and nowhere else. " + open.place.bad_block_advice();
    return state;
  }
  state.defect += fmt::format(
      ", but the log behind that is whole. Objects that were acknowledged may be there and nowhere else. Clear a bad "
      "block (ndctl clear-errors), then write the first page again, which leaves the log as it is: verbena device "
      "format {} (without --force, by which the log would be lost)",
      open.place.path.string());
  return state;
}

Result<NodeState> usable_state(const PersistentMemory& node, const OpenNode& open, std::string& trouble) {
  NodeState state = state_of(node, open);
  if (!state.defect.empty()) {
    return refuse_memory(trouble, node_name(open.place.path) + " " + state.defect, 0, state.as);
  }
  return state;
}

Result<DaxFormat> read_top(const std::filesystem::path& path, Use use, std::string& trouble) {
  VB_ASSIGN(OpenNode open, open_node(path, use, trouble));
  VB_ASSIGN(const auto tops, map_node(open, 0, size_of_tops, trouble));
  VB_ASSIGN(const NodeState state, usable_state(*tops, open, trouble));
  return DaxFormat{.facts = open.facts, .log_size = state.log_size, .is_held = state.is_held};
}

// Empty: nothing. Else what the node holds, as the rest of a sentence.
std::string what_is_there(const PersistentMemory& node) {
  std::vector<std::byte> piece(1 * MiB), nothing(piece.size());
  for (uint64_t at = 0; at < node.size(); at += piece.size()) {
    const auto some = std::span(piece).first(std::min<uint64_t>(piece.size(), node.size() - at));
    if (!node.load(some, at)) return "has a bad block, so that it cannot be told what it holds";
    uint64_t mark = 0;
    std::memcpy(&mark, some.data(), sizeof mark);
    if (at == 0 && mark == mark_of_a_node) return "has the log of a store";
    if (std::memcmp(some.data(), nothing.data(), some.size()) != 0) return "holds data";
  }
  return "";
}

bool store_mark(PersistentMemory& node, uint64_t mark) {
  const bool stored = node.store_number(0, mark) && node.flush(0, sizeof mark);
  node.fence();
  return stored;
}

// The first `size` bytes: the mark and zeros. A power cut leaves what was there, a node that is not formatted, or one
// that is.
bool write_top(PersistentMemory& node, uint64_t log_size, uint64_t size) {
  NodeTop top{.mark = mark_of_a_node, .log_size = log_size, .check = 0, .unused = 0};
  top.check = top.right_check();
  std::array<std::byte, size_of_tops> begin{};
  std::memcpy(begin.data(), &top, sizeof top);
  const Bytes rest = std::span(begin).first(size).subspan(sizeof top.mark);
  if (!store_mark(node, 0) || !node.store(sizeof top.mark, rest) || !node.flush(0, size)) return false;
  node.fence();
  return store_mark(node, mark_of_a_node);
}

std::unexpected<Error> refuse_to_write(const OpenNode& open, std::string& trouble) {
  return refuse_memory(
      trouble,
      node_name(open.place.path) +
          " cannot be written at its beginning. It has a bad block there: clear it (ndctl clear-errors)",
      0, Errc::io_error);
}

}  // namespace

void stand_in_for_dax_nodes(const DaxStandIn* other) { dax_stand_in = other; }

std::string what_is_kept(const std::filesystem::path& region) {
  const std::string domain = first_line(region / "persistence_domain");
  if (domain == "memory_controller") return "what was written back is kept";
  if (domain == "cpu_cache") return "the processor's caches are kept, too";
  return "the platform does not say what it keeps when the power fails";
}

uint64_t bad_bytes(const std::filesystem::path& badblocks, uint64_t from, uint64_t to) {
  std::ifstream lines(badblocks);
  uint64_t at = 0, count = 0, all = 0;
  while (lines >> at >> count) {
    const uint64_t begin = std::max(at * bad_block_size, from), end = std::min((at + count) * bad_block_size, to);
    if (begin < end) all += end - begin;
  }
  return all;
}

DaxFacts dax_facts(const std::filesystem::path& device) {
  DaxFacts facts;
  facts.size = number_in(device / "size").value_or(0);
  facts.alignment = number_in(device / "align").value_or(0);
  const auto region = region_of(device);
  if (region.empty() || first_line(region / "devtype") != "nd_pmem") {
    facts.kept = "the kernel does not know it as persistent memory, so it forgets when the power fails";
  } else if (first_line(region.parent_path() / "provider") == "virtio-pmem") {
    facts.kept = "virtio-pmem wants a flush by the host, which programs cannot make of a device-dax node";
  } else {
    facts.persistent = true;
    facts.kept = what_is_kept(region);
  }
  if (!region.empty()) facts.bad_bytes = bad_bytes_of(device, region, facts.size);
  return facts;
}

bool is_dax_node(const std::filesystem::path& path) {
  struct stat is{};
  return ::stat(path.c_str(), &is) == 0 && device_number(is);
}

Result<std::unique_ptr<MappedMemory>> open_dax_log(const std::filesystem::path& path, std::string& trouble) {
  VB_ASSIGN(OpenNode open, open_node(path, Use::own, trouble));
  VB_ASSIGN(const DaxFormat found, read_top(path, Use::look, trouble));
  if (found.log_size == 0) {
    return refuse_memory(trouble,
                         fmt::format("{} is not formatted. If nothing there is needed: verbena device format {}",
                                     node_name(path), path.string()),
                         0, Errc::unsupported);
  }
  return map_node(open, log_at, found.log_size, trouble);
}

Result<std::string> check_dax_node(const std::filesystem::path& path, std::string& trouble) {
  VB_ASSIGN(const DaxFormat found, read_top(path, Use::write, trouble));
  if (found.log_size == 0) {
    return refuse_memory(trouble, node_name(path) + " is not formatted (verbena device format)", 0, Errc::unsupported);
  }
  return fmt::format("is a device-dax node of {} with a log of {}, {}", format_size(found.facts.size),
                     format_size(found.log_size), found.facts.kept);
}

Result<DaxFormat> look_at_dax_node(const std::filesystem::path& path, std::string& trouble) {
  return read_top(path, Use::look, trouble);
}

Result<DaxFormat> format_dax_node(const std::filesystem::path& path, uint64_t log_size, bool force,
                                  std::string& trouble) {
  VB_ASSIGN(OpenNode open, open_node(path, Use::own, trouble));
  const bool has_room = open.mapped(log_at + log_size) <= open.facts.size;
  VB_ASSIGN(const auto node, map_node(open, 0, has_room ? log_at + log_size : size_of_tops, trouble));
  const NodeState before = state_of(*node, open);
  DaxFormat made{.facts = open.facts, .log_size = log_size, .is_held = before.is_held};
  if (before.log_behind != 0 && !force) {
    if (!write_top(*node, before.log_behind, log_at)) return refuse_to_write(open, trouble);
    made.log_size = before.log_behind;
    made.is_kept = true;
    return made;
  }
  if (!has_room) {
    return refuse_memory(trouble,
                         fmt::format("{} has {}, and a log needs {}", node_name(path), format_size(open.facts.size),
                                     format_size(open.mapped(log_at + log_size))),
                         0, Errc::insufficient_storage);
  }
  std::string found = force ? "" : what_is_there(*node);
  if (before.is_held && !found.empty()) found += ", which is running, or was not stopped in order";
  if (!found.empty()) {
    return refuse_memory(trouble,
                         fmt::format("{} {}. Nothing was changed. --force makes a new log there: what is in the first "
                                     "{} is lost",
                                     node_name(path), found, format_size(log_at + log_size)),
                         0, Errc::unsupported);
  }
  if (!write_top(*node, log_size, size_of_tops)) return refuse_to_write(open, trouble);
  return made;
}

}  // namespace verbena::store::local
