// Persistent memory of the machine: a file on a DAX file system, mapped with MAP_SYNC, or a device-dax node.
#include "store/local/persistent_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <atomic>
#include <cstring>

#include "base/bus_guard.h"
#include "store/local/dax_node.h"
#include "store/local/pmem_stand_in.h"

// Of Linux 4.15 and 5.14.
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace verbena::store::local {
namespace {

using WriteBack = void (*)(const std::byte* line);
struct LineWriteBack {
  std::string_view name;
  WriteBack run = nullptr;
};

#if defined(__x86_64__)
void clwb(const std::byte* line) { asm volatile("clwb %0" : : "m"(*line) : "memory"); }
void clflushopt(const std::byte* line) { asm volatile("clflushopt %0" : : "m"(*line) : "memory"); }
void clflush(const std::byte* line) { asm volatile("clflush %0" : : "m"(*line) : "memory"); }

LineWriteBack choose() {
  unsigned a = 0, b = 0, c = 0, d = 0;  // CPUID leaf 7: EBX bit 24 is CLWB, bit 23 CLFLUSHOPT (Intel SDM, vol. 2A)
  const bool has_leaf = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0;
  if (has_leaf && (b >> 24 & 1) != 0) return {"clwb", clwb};
  if (has_leaf && (b >> 23 & 1) != 0) return {"clflushopt", clflushopt};
  return {"clflush", clflush};
}
void wait_for_lines() { asm volatile("sfence" ::: "memory"); }
#elif defined(__aarch64__)
void dc_cvap(const std::byte* line) { asm volatile(".arch armv8.2-a\n\tdc cvap, %0" : : "r"(line) : "memory"); }

LineWriteBack choose() {
  constexpr unsigned long has_dc_pop = 1UL << 16;  // HWCAP_DCPOP
  if ((::getauxval(AT_HWCAP) & has_dc_pop) != 0) return {"dc cvap", dc_cvap};
  return {};
}
void wait_for_lines() { asm volatile("dsb sy" ::: "memory"); }
#else
LineWriteBack choose() { return {}; }
void wait_for_lines() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#endif

const LineWriteBack& write_back() {
  static const LineWriteBack chosen = choose();
  return chosen;
}

std::unexpected<Error> refused(std::string& trouble, std::string sentence, int error, Errc as = Errc::unsupported) {
  return refuse_memory(trouble, std::move(sentence), error, as);
}

Result<Fd> open_folder(const std::filesystem::path& folder, std::string& trouble) {
  const std::string name = "data.pmem: " + folder.string();
  struct stat is{};
  if (::stat(folder.c_str(), &is) != 0) return refused(trouble, name, errno, Errc::not_found);
  if (!S_ISDIR(is.st_mode)) return refused(trouble, name + " is neither a folder nor a device-dax node", 0);
  Fd held(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!held) return refused(trouble, name, errno, Errc::io_error);
  return held;
}

// Maps a file of the folder so that a flushed line is durable, with all that the file system needs to find it again.
Result<std::byte*> map_durably(const Fd& file, uint64_t size, const std::filesystem::path& folder,
                               std::string& trouble) {
  VB_TRY(check_line_write_back(trouble));
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC, file.get(), 0);
  if (at == MAP_FAILED) {
    return refused(trouble,
                   "data.pmem: " + folder.string() +
                       " is not on a DAX file system (mmap with MAP_SYNC is refused), so nothing written there would "
                       "be durable; mount ext4 or XFS with -o dax on a device such as /dev/pmem0, and name a folder of "
                       "it",
                   errno);
  }
  return static_cast<std::byte*>(at);
}

// A power cut while the file was made leaves a short one that no log was ever in.
Result<bool> was_never_used(const Fd& file, uint64_t length) {
  uint64_t first = 0;
  if (length < sizeof first) return true;
  if (::pread(file.get(), &first, sizeof first, 0) != sizeof first) return fail(Errc::io_error, "pmem: read", errno);
  return first == 0;
}

PmemPlace file_in(const std::filesystem::path& folder) { return {.path = folder / pmem_file_name}; }

// The folder's file, locked.
Result<Fd> open_log(const Fd& folder, const std::filesystem::path& path, uint64_t size, std::string& trouble) {
  Fd file(::openat(folder.get(), pmem_file_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string name = "data.pmem: " + (path / pmem_file_name).string();
  if (!file) return refused(trouble, name, errno, Errc::io_error);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    return refused(trouble, name + " is in use by another server", errno, Errc::service_unavailable);
  }
  struct stat is{};
  if (::fstat(file.get(), &is) != 0) return refused(trouble, name, errno, Errc::io_error);
  if (!S_ISREG(is.st_mode)) return refused(trouble, name + " is not a file", 0);
  const auto length = static_cast<uint64_t>(is.st_size);
  const auto unused = length < size ? was_never_used(file, length) : Result<bool>(false);
  if (!unused) {
    return refused(trouble, name + " cannot be read at its beginning. " + file_in(path).bad_block_advice(),
                   unused.error().sys, Errc::io_error);
  }
  if (*unused) {
    // The blocks are reserved at once: a store into a hole of a full file system would be a SIGBUS.
    const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(size));
    if (error != 0) {
      (void)::ftruncate(file.get(), 0);
      return refused(trouble, name + " needs " + format_size(size), error, Errc::insufficient_storage);
    }
  }
  if (::fsync(file.get()) != 0 || ::fsync(folder.get()) != 0) return refused(trouble, name, errno, Errc::io_error);
  return file;
}

Result<void> check_folder(const std::filesystem::path& folder, std::string& trouble) {
  constexpr uint64_t size = 4096;
  VB_ASSIGN(const Fd held, open_folder(folder, trouble));
  std::string name = (folder / "verbena-check-XXXXXX").string();
  const Fd file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) return refused(trouble, "data.pmem: " + folder.string(), errno, Errc::io_error);
  ::unlink(name.c_str());
  const int error = ::posix_fallocate(file.get(), 0, size);
  if (error != 0) return refused(trouble, "data.pmem: " + folder.string(), error, Errc::insufficient_storage);
  VB_ASSIGN(std::byte* const base, map_durably(file, size, folder, trouble));
  ::munmap(base, size);
  return {};
}

Result<std::unique_ptr<MappedMemory>> open_in_folder(const std::filesystem::path& folder, uint64_t size,
                                                     std::string& trouble) {
  VB_TRY(check_folder(folder, trouble));  // before a file of this size is made in vain
  VB_ASSIGN(const Fd held, open_folder(folder, trouble));
  VB_ASSIGN(Fd file, open_log(held, folder, size, trouble));
  struct stat is{};
  if (::fstat(file.get(), &is) != 0) return refused(trouble, "data.pmem: " + folder.string(), errno, Errc::io_error);
  const auto length = static_cast<uint64_t>(is.st_size);
  VB_ASSIGN(std::byte* const base, map_durably(file, length, folder, trouble));
  return std::make_unique<MappedMemory>(file_in(folder), std::move(file),
                                        MappedMemory::Mapping{.base = base, .length = length, .size = length});
}

class RealMemories final : public PersistentMemories {
 public:
  Result<std::unique_ptr<PersistentMemory>> open(const std::filesystem::path& where, uint64_t size,
                                                 std::string& trouble) override {
    auto memory = is_dax_node(where) ? open_dax_log(where, trouble) : open_in_folder(where, size, trouble);
    if (!memory) return std::unexpected(memory.error());
    // The first store into a page waits for the file system's journal, or for a mapping of it: here, not in a PUT.
    (*memory)->populate();
    return std::move(*memory);
  }
};

std::atomic<PersistentMemories*> stand_in = nullptr;

}  // namespace

void stand_in_for_persistent_memory(PersistentMemories* memories) { stand_in = memories; }

std::string_view line_write_back() { return write_back().name; }

PersistentMemories& real_persistent_memories() {
  static RealMemories all;
  PersistentMemories* const other = stand_in;
  return other != nullptr ? *other : all;
}

Result<std::string> check_persistent_memory(const std::filesystem::path& where, std::string& trouble) {
  if (is_dax_node(where)) return check_dax_node(where, trouble);
  VB_TRY(check_folder(where, trouble));
  return "is on a DAX file system";
}

std::unexpected<Error> refuse_memory(std::string& trouble, std::string sentence, int error, Errc as) {
  trouble = std::move(sentence);
  if (error != 0) trouble += ": " + std::string(std::strerror(error));
  return fail(as, "store: persistent memory", error);
}

Result<void> check_line_write_back(std::string& trouble) {
  if (write_back().run != nullptr) return {};
  return refused(trouble, "data.pmem: this processor has no instruction that writes a cache line back to memory", 0);
}

std::string PmemPlace::named() const { return " (data.pmem: " + path.string() + ")"; }

std::string PmemPlace::bad_block_advice() const {
  constexpr const char* what = "The memory has a bad block there, or the device is broken. ";
  if (!is_node) return std::string(what) + "Move the file away, or remove it: a new one gets other blocks";
  return what + ("Clear it (ndctl clear-errors), and make a new log: verbena device format --force " + path.string());
}

std::string PmemPlace::another_log_advice() const {
  return is_node ? "Name another node, or make a new log here (verbena device format --force)"
                 : "Take the file away and start again";
}

MappedMemory::MappedMemory(PmemPlace place, Fd file, const Mapping& mapping, Fd lock)
    : place_(std::move(place)),
      file_(std::move(file)),
      lock_(std::move(lock)),
      mapping_(mapping),
      base_(mapping.base + mapping.begin) {
  install_bus_guard();
}

MappedMemory::~MappedMemory() { ::munmap(mapping_.base, mapping_.length); }

void MappedMemory::populate() { (void)::madvise(mapping_.base, mapping_.length, MADV_POPULATE_WRITE); }

bool MappedMemory::load(MutableBytes into, uint64_t offset) const {
  if (into.empty()) return true;
  return survives_bus_error([&] { std::memcpy(into.data(), base_ + offset, into.size()); });
}

bool MappedMemory::store(uint64_t offset, Bytes bytes) {
  if (bytes.empty()) return true;
  return survives_bus_error([&] { std::memcpy(base_ + offset, bytes.data(), bytes.size()); });
}

bool MappedMemory::store_number(uint64_t offset, uint64_t number) {
  auto* const at = reinterpret_cast<uint64_t*>(base_ + offset);
  return survives_bus_error([&] { std::atomic_ref(*at).store(number, std::memory_order_release); });
}

bool MappedMemory::flush(uint64_t offset, uint64_t length) {
  const std::byte* const begin = base_ + offset / cache_line * cache_line;
  const std::byte* const end = base_ + offset + length;
  return survives_bus_error([&] {
    for (const std::byte* line = begin; line < end; line += cache_line) write_back().run(line);
  });
}

void MappedMemory::fence() { wait_for_lines(); }

}  // namespace verbena::store::local
