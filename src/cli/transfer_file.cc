#include "cli/transfer_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>

#include "base/bytes.h"
#include "cli/object_digest.h"
#include "client/outcome.h"

namespace verbena::cli {

using client::fault;

namespace {

constexpr uint64_t whole_max = 64 * MiB;  // larger objects are fetched in ranges
constexpr uint64_t range_bytes = 16 * MiB;
constexpr size_t ranges_in_flight = 4;

class File {
 public:
  explicit File(int fd, bool owned = true) : fd_(fd), owned_(owned) {}
  ~File() {
    if (owned_ && fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
  bool owned_;
};

std::unexpected<ClientError> local(const std::string& what, int error) {
  return fault(error == ENOENT ? ErrorCode::no_such_key : ErrorCode::local_error, what + ": " + std::strerror(error));
}

Outcome<size_t> read_full(int fd, std::span<std::byte> into, const std::string& name) {
  size_t filled = 0;
  while (filled < into.size()) {
    const ssize_t n = ::read(fd, into.data() + filled, into.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return local(name, errno);
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  return filled;
}

Outcome<> write_full(int fd, std::span<const std::byte> from, const std::string& name) {
  while (!from.empty()) {
    const ssize_t n = ::write(fd, from.data(), from.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return local(name, errno);
    from = from.subspan(static_cast<size_t>(n));
  }
  return {};
}

Outcome<GetReply> get_whole(const Client& client, const std::string& bucket, const std::string& key, uint64_t size,
                            int fd, const std::string& name, Progress& bar) {
  std::vector<std::byte> nothing(1);
  Buffer buffer;
  GetReply got;
  if (size == 0) {
    OUT_ASSIGN(got, client.get(bucket, key, std::span(nothing)));
  } else {
    OUT_ASSIGN(buffer, client.allocate(size));
    OUT_ASSIGN(got, client.get(bucket, key, buffer));
  }
  OUT_TRY(write_full(fd, buffer.bytes().first(std::min<size_t>(got.bytes, buffer.size())), name));
  bar.add(got.bytes);
  return got;
}

struct Flight {
  Buffer buffer;
  uint64_t size = 0;
  std::future<Outcome<GetReply>> reply;
};

// Ranges in order, a few ahead of the one that is being written.
Outcome<GetReply> get_in_ranges(const Client& client, const std::string& bucket, const ObjectInfo& info, int fd,
                                const std::string& name, Progress& bar) {
  GetReply all;
  all.info = info;
  ObjectDigest digest(info.checksum);
  std::vector<Buffer> free_buffers;
  std::deque<Flight> flights;
  uint64_t asked = 0;
  Outcome<> state = {};
  while (state && (asked < info.size || !flights.empty())) {
    while (asked < info.size && flights.size() < ranges_in_flight) {
      Flight flight;
      if (free_buffers.empty()) {
        auto made = client.allocate(range_bytes);
        if (!made) {
          state = std::unexpected(std::move(made).error());
          break;
        }
        flight.buffer = std::move(*made);
      } else {
        flight.buffer = std::move(free_buffers.back());
        free_buffers.pop_back();
      }
      flight.size = std::min(range_bytes, info.size - asked);
      GetOptions options;
      options.range = Range{asked, flight.size};
      options.if_match = info.etag;
      flight.reply = client.get_async(bucket, info.key, flight.buffer.slice(0, flight.size), options);
      asked += flight.size;
      flights.push_back(std::move(flight));
    }
    if (!state || flights.empty()) break;
    Flight flight = std::move(flights.front());
    flights.pop_front();
    auto got = flight.reply.get();
    if (!got) {
      state = std::unexpected(std::move(got).error());
    } else if (got->bytes != flight.size) {
      state = fault(ErrorCode::malformed_reply, "a range came back shorter than asked");
    } else {
      const auto bytes = flight.buffer.bytes().first(flight.size);
      digest.update(bytes);
      state = write_full(fd, bytes, name);
      all.bytes += got->bytes;
      if (all.transfer.bytes == 0 || got->transfer.door == Via::http) all.transfer = got->transfer;
      all.transfer.bytes = all.bytes;
      bar.add(got->bytes);
      free_buffers.push_back(std::move(flight.buffer));
    }
  }
  for (Flight& flight : flights) flight.reply.wait();  // their buffers are kept until they have arrived
  if (!state) return std::unexpected(std::move(state).error());
  OUT_TRY(digest.check());
  return all;
}

// What has been written, as far as the file system says: some (NFS, FUSE) tell of a full disk only when a descriptor is
// closed, and then at each.
Outcome<> check_written(int fd, const std::string& name) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || ::close(copy) != 0) return local(name, errno);
  return {};
}

// A file that has a name only when it is whole, so that nothing of it is left whenever the program ends; where the file
// system has no such files, one with a name of its own, which the destructor removes unless it is kept.
class TemporaryFile {
 public:
  static Outcome<std::unique_ptr<TemporaryFile>> beside(const std::filesystem::path& target) {
    const auto folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
    const std::string begin = (folder / ("." + target.filename().string().substr(0, 200) + ".")).string();
    if (::access("/proc/self/fd", X_OK) == 0) {
      const int fd = ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
      if (fd >= 0) return std::unique_ptr<TemporaryFile>(new TemporaryFile(fd, begin, {}));
    }
    return named(target, begin);
  }
  ~TemporaryFile() {
    if (!name_.empty()) ::unlink(name_.c_str());
  }
  int fd() const { return file_.fd(); }
  Outcome<> keep_as(const std::filesystem::path& target) {
    OUT_TRY(check_written(fd(), target.string()));
    if (name_.empty()) {
      // A link replaces nothing: if there is such a file, the new one gets another name for a moment.
      if (link_as(target.c_str())) return {};
      for (int attempt = 0; errno == EEXIST && attempt != 100; ++attempt) {
        std::string name = begin_ + random_name();
        if (link_as(name.c_str())) {
          name_ = std::move(name);
          break;
        }
      }
      // Not all file systems that have such files let them have a name later.
      if (name_.empty()) return copy_as(target);
    }
    if (::rename(name_.c_str(), target.c_str()) != 0) return local(target.string(), errno);
    name_.clear();
    return {};
  }

 private:
  TemporaryFile(int fd, std::string begin, std::string name)
      : file_(fd), begin_(std::move(begin)), name_(std::move(name)) {}
  static Outcome<std::unique_ptr<TemporaryFile>> named(const std::filesystem::path& target, const std::string& begin) {
    for (int attempt = 0;; ++attempt) {
      std::string name = begin + random_name();
      // The kernel applies the umask: to read it, a program has to change it, for all of its threads.
      const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd >= 0) return std::unique_ptr<TemporaryFile>(new TemporaryFile(fd, begin, std::move(name)));
      if (errno != EEXIST || attempt == 100) return local(target.string(), errno);
    }
  }
  Outcome<> copy_as(const std::filesystem::path& target) const {
    OUT_ASSIGN(const auto copy, named(target, begin_));
    if (::lseek(fd(), 0, SEEK_SET) != 0) return local(target.string(), errno);
    std::vector<std::byte> buffer(1 * MiB);
    for (;;) {
      OUT_ASSIGN(const size_t n, read_full(fd(), buffer, target.string()));
      OUT_TRY(write_full(copy->fd(), std::span(buffer).first(n), target.string()));
      if (n < buffer.size()) return copy->keep_as(target);
    }
  }
  static std::string random_name() {
    std::array<std::byte, 8> random{};
    fill_random(random);
    return to_hex(random);
  }
  bool link_as(const char* name) const {
    const std::string open = "/proc/self/fd/" + std::to_string(fd());
    return ::linkat(AT_FDCWD, open.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
  }
  File file_;
  const std::string begin_;  // of names
  std::string name_;         // empty: none
};

// The number of an open descriptor of this process that the path stands for, or links lead to: /dev/stdout, /dev/fd/3.
std::optional<int> descriptor_of(std::filesystem::path path) {
  namespace fs = std::filesystem;
  constexpr int links_max = 40;  // as the kernel follows
  std::error_code ec;
  const fs::path descriptors = fs::canonical("/proc/self/fd", ec);
  if (ec) return std::nullopt;
  for (int i = 0; i <= links_max; ++i) {
    if (fs::canonical(path.has_parent_path() ? path.parent_path() : ".", ec) == descriptors && !ec) {
      int number = -1;
      const std::string last = path.filename().string();
      const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), number);
      if (error == std::errc() && end == last.data() + last.size()) return number;
    }
    const fs::path link = fs::read_symlink(path, ec);  // of /dev/stdout: /proc/self/fd/1
    if (ec) return std::nullopt;
    path = path.parent_path() / link;
  }
  return std::nullopt;
}

// What a download writes to: standard output, a file that appears when it is whole, or what is there already and is no
// file. A rename over the latter would put a file in the place of a device, for all programs.
class Target {
 public:
  static Outcome<Target> open(const std::string& path, PathFrom path_from) {
    if (path == "-") return Target(std::make_unique<File>(STDOUT_FILENO, false), nullptr);
    const bool named = path_from == PathFrom::caller;
    struct stat status{};
    const bool other = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
    if (other && S_ISDIR(status.st_mode)) return local(path, EISDIR);
    if (other && !named) return fault(ErrorCode::local_error, path + ": something is there that is no file");
    const auto descriptor = named ? descriptor_of(path) : std::nullopt;
    if (descriptor || other) {
      // A descriptor is duplicated: opened again, a file would be written from its begin, and a socket cannot be.
      const int fd = descriptor ? ::fcntl(*descriptor, F_DUPFD_CLOEXEC, 0) : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (fd < 0) return local(path, errno);
      return Target(std::make_unique<File>(fd), nullptr);
    }
    OUT_ASSIGN(auto temporary, TemporaryFile::beside(path));
    return Target(nullptr, std::move(temporary));
  }
  int fd() const { return temporary_ ? temporary_->fd() : open_->fd(); }
  Outcome<> keep_as(const std::string& path) {
    if (temporary_) return temporary_->keep_as(path);
    return {};
  }

 private:
  Target(std::unique_ptr<File> open, std::unique_ptr<TemporaryFile> temporary)
      : open_(std::move(open)), temporary_(std::move(temporary)) {}
  std::unique_ptr<File> open_;  // one of both
  std::unique_ptr<TemporaryFile> temporary_;
};

// A file that is read, and what it was at the begin.
struct OpenFile {
  const std::string& path;
  int fd;
  bool sized;  // a file with a size, which is read from its begin
  struct stat begin{};

  // ctime would also tell of a rename or a link, which change no bytes.
  bool changed() const {
    struct stat now{};
    if (!sized) return false;
    return ::fstat(fd, &now) != 0 || now.st_size != begin.st_size || now.st_mtim.tv_sec != begin.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != begin.st_mtim.tv_nsec;
  }
  Outcome<> unchanged() const {
    if (!changed()) return {};
    return fault(ErrorCode::local_error, path + ": changed while it was read");
  }
};

Outcome<PutReply> upload_once(const Client& client, const OpenFile& file, const std::string& bucket,
                              const std::string& key, PutOptions options, bool progress) {
  const uint64_t size = file.sized ? static_cast<uint64_t>(file.begin.st_size) : 0;
  Progress bar(file.path, file.sized ? std::optional(size) : std::nullopt, progress);
  // A file that fits one buffer is read directly into registered memory.
  if (size > 0 && size <= whole_max) {
    OUT_ASSIGN(const Buffer buffer, client.allocate(size));
    OUT_ASSIGN(const size_t n, read_full(file.fd, buffer.bytes(), file.path));
    OUT_TRY(file.unchanged());
    if (n != size) return fault(ErrorCode::local_error, file.path + ": is shorter than its size");
    return client.put(bucket, key, buffer, options);
  }
  options.stream_size = size;
  return client.put_stream(
      bucket, key,
      [&](std::span<std::byte> into) -> Outcome<size_t> {
        OUT_ASSIGN(const size_t n, read_full(file.fd, into, file.path));
        if (n < into.size()) OUT_TRY(file.unchanged());  // the end
        bar.add(n);
        return n;
      },
      options);
}

}  // namespace

Outcome<PutReply> upload(const Client& client, const std::string& path, const std::string& bucket,
                         const std::string& key, const PutOptions& options, bool progress) {
  constexpr int uploads_max = 3;
  const bool from_stdin = path == "-";
  const File file(from_stdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC), !from_stdin);
  if (file.fd() < 0) return local(path, errno);
  for (int i = 1;; ++i) {
    OpenFile open{path, file.fd(), false};
    if (::fstat(file.fd(), &open.begin) != 0) return local(path, errno);
    if (S_ISDIR(open.begin.st_mode)) return fault(ErrorCode::invalid_argument, "is a folder: use --recursive");
    open.sized = S_ISREG(open.begin.st_mode) && !from_stdin;
    auto put = upload_once(client, open, bucket, key, options, progress);
    if (!put || !open.changed()) return put;
    if (i == uploads_max) {
      return fault(ErrorCode::local_error,
                   path + ": changes whenever it is uploaded; what it was before the last change is stored");
    }
    if (::lseek(file.fd(), 0, SEEK_SET) != 0) return local(path, errno);
  }
}

Outcome<GetReply> download(const Client& client, const std::string& bucket, const std::string& key,
                           const std::string& path, PathFrom path_from, bool progress) {
  OUT_ASSIGN(const ObjectInfo info, client.head(bucket, key));
  OUT_ASSIGN(Target target, Target::open(path, path_from));
  Progress bar(key, info.size, progress);
  Outcome<GetReply> got = info.size <= whole_max ? get_whole(client, bucket, key, info.size, target.fd(), path, bar)
                                                 : get_in_ranges(client, bucket, info, target.fd(), path, bar);
  if (got) OUT_TRY(target.keep_as(path));
  return got;
}

Outcome<> save_file(const std::string& path, std::span<const std::byte> bytes) {
  OUT_ASSIGN(Target target, Target::open(path, PathFrom::key));
  OUT_TRY(write_full(target.fd(), bytes, path));
  return target.keep_as(path);
}

std::optional<std::filesystem::path> local_path(const std::filesystem::path& folder, std::string_view relative_key) {
  std::filesystem::path out = folder;
  if (relative_key.empty() || relative_key.find('\0') != relative_key.npos) return std::nullopt;
  while (!relative_key.empty()) {
    const size_t slash = relative_key.find('/');
    const std::string_view part = relative_key.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return std::nullopt;
    out /= part;
    relative_key.remove_prefix(slash == relative_key.npos ? relative_key.size() : slash + 1);
  }
  return out;
}

}  // namespace verbena::cli
