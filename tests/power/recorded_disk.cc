// A disk in a file whose writes and flushes are recorded, for tests/power/cuts.py: a FUSE file system with one file,
// `disk`, over which a loop device is set up. With SPLIT there are two disks in one recording: `disk` has the first
// SPLIT bytes, `device` the others, and a flush is of one of them.
//
// usage: recorded_disk BASE LOG POSITION MOUNT_POINT WRITE_US FLUSH_US [SPLIT]
//
// BASE: what the disk holds at first; never changed. LOG: one record per event, in order (Record below; the bytes
// follow a write's begin; a flush's offset and length are its disk's). POSITION: 8 bytes, the number of events so far.
// An event is in the log before the kernel learns of it, so whatever a client is told rests on events below the
// position that it reads afterwards. WRITE_US, FLUSH_US: the longest time that a write or a flush takes.
#define FUSE_USE_VERSION 312
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <random>

namespace {

constexpr fuse_ino_t kFirst = 2;
constexpr size_t kParts = 2;
constexpr const char* kNames[kParts] = {"disk", "device"};

enum class Kind : uint32_t { write_begin = 1, write_end = 2, flush_begin = 3, flush_end = 4 };

// As Python's struct "<IIQQQ" reads it.
struct Record {
  Kind kind;
  uint32_t id;  // the same at begin and end
  uint64_t time_ns;
  uint64_t offset;
  uint64_t length;
};
static_assert(sizeof(Record) == 32);

class Recording {
 public:
  Recording(int log, std::atomic<uint64_t>* position) : log_(log), position_(position) {}

  uint32_t begin(Kind kind, uint64_t offset, const char* data, size_t length) {
    std::lock_guard lock(mutex_);
    append({kind, next_, now_ns(), offset, length}, data);
    return next_++;
  }

  void end(Kind kind, uint32_t id) {
    std::lock_guard lock(mutex_);
    append({kind, id, now_ns(), 0, 0}, nullptr);
  }

 private:
  static uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  }

  void append(const Record& record, const char* data) {
    put(reinterpret_cast<const char*>(&record), sizeof record);
    if (data != nullptr) put(data, record.length);
    position_->fetch_add(1, std::memory_order_release);
  }

  void put(const char* data, size_t n) {
    while (n != 0) {
      ssize_t done = ::write(log_, data, n);
      if (done < 0) {
        std::perror("recorded_disk: log");
        std::abort();
      }
      data += done;
      n -= static_cast<size_t>(done);
    }
  }

  std::mutex mutex_;
  int log_;
  std::atomic<uint64_t>* position_;
  uint32_t next_ = 0;
};

struct Part {
  size_t begin = 0, size = 0;  // size 0: there is none
};

struct Disk {
  char* bytes = nullptr;
  Part parts[kParts];
  Recording* recording = nullptr;
  unsigned write_us_max = 0, flush_us_max = 0;
};

Disk& disk_of(fuse_req_t request) { return *static_cast<Disk*>(fuse_req_userdata(request)); }

// Null: no file.
const Part* part_of(const Disk& disk, fuse_ino_t node) {
  if (node < kFirst || node >= kFirst + kParts || disk.parts[node - kFirst].size == 0) return nullptr;
  return &disk.parts[node - kFirst];
}

void take_up_to(unsigned us_max) {
  thread_local std::minstd_rand random(std::random_device{}());
  if (us_max != 0) ::usleep(static_cast<useconds_t>(random() % us_max));
}

struct stat attributes_of(const Disk& disk, fuse_ino_t node) {
  const Part* part = part_of(disk, node);
  struct stat about{};
  about.st_ino = node;
  about.st_mode = part != nullptr ? S_IFREG | 0600 : S_IFDIR | 0700;
  about.st_nlink = 1;
  about.st_size = part != nullptr ? static_cast<off_t>(part->size) : 0;
  return about;
}

void init(void*, fuse_conn_info* connection) { connection->max_background = 64; }

void lookup(fuse_req_t request, fuse_ino_t, const char* name) {
  const Disk& disk = disk_of(request);
  for (size_t i = 0; i < kParts; ++i) {
    if (std::strcmp(name, kNames[i]) != 0 || part_of(disk, kFirst + i) == nullptr) continue;
    fuse_entry_param entry{};
    entry.ino = kFirst + i;
    entry.attr = attributes_of(disk, entry.ino);
    entry.attr_timeout = entry.entry_timeout = 1e6;
    fuse_reply_entry(request, &entry);
    return;
  }
  fuse_reply_err(request, ENOENT);
}

void getattr(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
  struct stat about = attributes_of(disk_of(request), node);
  fuse_reply_attr(request, &about, 1e6);
}

void open(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
  file->direct_io = 1;
  fuse_reply_open(request, file);
}

void read(fuse_req_t request, fuse_ino_t node, size_t size, off_t offset, fuse_file_info*) {
  Disk& disk = disk_of(request);
  const Part& part = *part_of(disk, node);
  size_t at = std::min(static_cast<size_t>(offset), part.size);
  fuse_reply_buf(request, disk.bytes + part.begin + at, std::min(size, part.size - at));
}

void write(fuse_req_t request, fuse_ino_t node, const char* data, size_t size, off_t offset, fuse_file_info*) {
  Disk& disk = disk_of(request);
  const Part& part = *part_of(disk, node);
  if (static_cast<size_t>(offset) + size > part.size) {
    fuse_reply_err(request, ENOSPC);
    return;
  }
  const size_t place = part.begin + static_cast<size_t>(offset);
  uint32_t id = disk.recording->begin(Kind::write_begin, place, data, size);
  std::memcpy(disk.bytes + place, data, size);
  take_up_to(disk.write_us_max);
  disk.recording->end(Kind::write_end, id);
  fuse_reply_write(request, size);
}

void fsync(fuse_req_t request, fuse_ino_t node, int, fuse_file_info*) {
  Disk& disk = disk_of(request);
  const Part& part = *part_of(disk, node);
  uint32_t id = disk.recording->begin(Kind::flush_begin, part.begin, nullptr, part.size);
  take_up_to(disk.flush_us_max);
  disk.recording->end(Kind::flush_end, id);
  fuse_reply_err(request, 0);
}

int opened(const char* path, int flags) {
  int fd = ::open(path, flags | O_CLOEXEC, 0600);
  if (fd < 0) {
    std::fprintf(stderr, "recorded_disk: %s: %s\n", path, std::strerror(errno));
    std::exit(1);
  }
  return fd;
}

void* mapped(int fd, size_t size, int flags) {
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) {
    std::perror("recorded_disk: mmap");
    std::exit(1);
  }
  return at;
}

int serve(Disk& disk, const char* mount_point) {
  fuse_lowlevel_ops operations{};
  operations.init = init;
  operations.lookup = lookup;
  operations.getattr = getattr;
  operations.open = open;
  operations.read = read;
  operations.write = write;
  operations.fsync = fsync;
  char name[] = "recorded_disk";
  char* arguments[] = {name, nullptr};
  fuse_args args = FUSE_ARGS_INIT(1, arguments);
  fuse_session* session = fuse_session_new(&args, &operations, sizeof operations, &disk);
  if (session == nullptr || fuse_session_mount(session, mount_point) != 0) return 1;
  fuse_set_signal_handlers(session);
  fuse_loop_config* config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_clone_fd(config, 0);
  int status = fuse_session_loop_mt(session, config);
  fuse_loop_cfg_destroy(config);
  fuse_session_unmount(session);
  fuse_session_destroy(session);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) {
    std::fprintf(stderr, "usage: recorded_disk BASE LOG POSITION MOUNT_POINT WRITE_US FLUSH_US [SPLIT]\n");
    return 2;
  }
  int base = opened(argv[1], O_RDONLY);
  struct stat about{};
  ::fstat(base, &about);
  int position = opened(argv[3], O_RDWR | O_CREAT);
  if (::ftruncate(position, sizeof(uint64_t)) != 0) return 1;
  Recording recording(opened(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND),
                      static_cast<std::atomic<uint64_t>*>(mapped(position, sizeof(uint64_t), MAP_SHARED)));
  Disk disk;
  const size_t size = static_cast<size_t>(about.st_size);
  const size_t split = argc == 8 ? std::min<size_t>(std::strtoull(argv[7], nullptr, 10), size) : size;
  disk.parts[0] = {0, split};
  disk.parts[1] = {split, size - split};
  disk.bytes = static_cast<char*>(mapped(base, size, MAP_PRIVATE));
  disk.recording = &recording;
  disk.write_us_max = static_cast<unsigned>(std::atoi(argv[5]));
  disk.flush_us_max = static_cast<unsigned>(std::atoi(argv[6]));
  return serve(disk, argv[4]) == 0 ? 0 : 1;
}
