// Network faults between a process and its OSDs: preloaded (LD_PRELOAD), it replaces the socket calls of librados. A
// test names some bytes, and the first message that contains them is
//   held: it and all that follows on its connection stay here, as after a cut, until they are released;
//   made and not answered: it is sent, and its connection is not read any more, until that is cut.
// One at a time. src/store/conformance/wire.h is the test's interface in the same process. For another process it is
// the file $WIRE_FLAG: while it exists, the message that contains its text is held. A file with `.armed` after its name
// shows that this is in effect.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

extern "C" void verbena_wire_go();

namespace {

enum class Mode { nothing, hold, lose };

std::mutex mutex;  // guards these
Mode mode = Mode::nothing;
std::string mark;
int to_pass = 0;   // messages with the mark that are left alone
std::string held;  // what the victim sent since
std::atomic<int> victim{-1};
std::atomic<bool> deaf{false}, cut{false};

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

bool has_mark(const msghdr* message) {
  std::string bytes;
  for (size_t i = 0; i < message->msg_iovlen; ++i) {
    bytes.append(static_cast<const char*>(message->msg_iov[i].iov_base), message->msg_iov[i].iov_len);
  }
  return memmem(bytes.data(), bytes.size(), mark.data(), mark.size()) != nullptr;
}

void arm(Mode what, const char* bytes, int pass) {
  const std::lock_guard lock(mutex);
  mode = what;
  mark = bytes;
  to_pass = pass;
  held.clear();
  victim = -1;
  deaf = cut = false;
}

// The text of a file; empty if it does not exist.
std::string text_of(const char* path) {
  char text[256];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t size = ::read(fd, text, sizeof text);
  ::close(fd);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : std::string();
}

void follow(const char* path) {
  const std::string answer = std::string(path) + ".armed";
  for (bool armed = false;; usleep(10'000)) {
    const std::string text = text_of(path);
    if (text.empty() == !armed) continue;
    armed = !text.empty();
    if (armed) {
      arm(Mode::hold, text.c_str(), 0);
      ::close(open(answer.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    } else {
      verbena_wire_go();
      unlink(answer.c_str());
    }
  }
}

[[gnu::constructor]] void begin() {
  if (const char* path = getenv("WIRE_FLAG")) std::thread(follow, path).detach();
}

}  // namespace

extern "C" {

void verbena_wire_hold(const char* bytes, int pass) { arm(Mode::hold, bytes, pass); }
void verbena_wire_lose(const char* bytes, int pass) { arm(Mode::lose, bytes, pass); }

// True once a message had the bytes.
int verbena_wire_caught() { return victim.load() >= 0 ? 1 : 0; }

// Releases what was held; or cuts the connection whose answers are not read.
void verbena_wire_go() {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, int)>("send");
  const std::lock_guard lock(mutex);
  const int fd = victim.load();
  if (mode == Mode::hold && fd >= 0) {
    for (size_t at = 0; at < held.size();) {
      const ssize_t sent = real(fd, held.data() + at, held.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) break;
      if (sent < 0) {
        usleep(1000);
      } else {
        at += static_cast<size_t>(sent);
      }
    }
  }
  if (mode == Mode::lose && fd >= 0) {
    cut = true;
    shutdown(fd, SHUT_RDWR);
  }
  mode = Mode::nothing;
  held.clear();
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static const auto real = next<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  std::unique_lock lock(mutex);
  if (mode == Mode::nothing) {
    lock.unlock();
    return real(fd, message, flags);
  }
  if (victim < 0 && has_mark(message) && to_pass-- <= 0) {
    victim = fd;
    deaf = mode == Mode::lose;
  }
  if (mode == Mode::hold && fd == victim) {
    ssize_t size = 0;
    for (size_t i = 0; i < message->msg_iovlen; ++i) {
      held.append(static_cast<const char*>(message->msg_iov[i].iov_base), message->msg_iov[i].iov_len);
      size += static_cast<ssize_t>(message->msg_iov[i].iov_len);
    }
    return size;
  }
  return real(fd, message, flags);
}

ssize_t read(int fd, void* into, size_t size) {
  static const auto real = next<ssize_t (*)(int, void*, size_t)>("read");
  if (fd != victim.load(std::memory_order_relaxed) || !deaf) return real(fd, into, size);
  if (!cut) {
    errno = EAGAIN;
    return -1;
  }
  deaf = false;
  errno = ECONNRESET;
  return -1;
}

int close(int fd) {
  static const auto real = next<int (*)(int)>("close");
  // Another connection may get the same descriptor: held bytes are lost with this one.
  if (fd == victim.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(mutex);
    held.clear();
    deaf = false;
    mode = Mode::nothing;
  }
  return real(fd);
}

}  // extern "C"
