#include "cli/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

extern char** environ;

namespace verbena::cli {
namespace {

constexpr size_t output_max = 1 << 20;
constexpr std::chrono::seconds end_within{15};

}  // namespace

std::expected<std::unique_ptr<Child>, std::string> Child::start(
    const std::vector<std::string>& arguments, const std::vector<std::pair<std::string, std::string>>& environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::unexpected(std::string("pipe: ") + std::strerror(errno));
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  for (const auto& [name, value] : environment) {
    std::erase_if(variables, [&](const std::string& known) { return known.starts_with(name + "="); });
    variables.push_back(name + "=" + value);
  }
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);

  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Only async-signal-safe calls from here to exec. The child is ended with its parent, however that ends.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent || ::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(ends[1], STDOUT_FILENO) < 0) ::_exit(127);
    ::signal(SIGPIPE, SIG_DFL);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  const int problem = errno;
  ::close(nothing);
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return std::unexpected(arguments[0] + ": " + std::strerror(problem));
  }
  return std::unique_ptr<Child>(new Child(pid, ends[0]));
}

Child::~Child() {
  ::close(out_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  if (wait(end_within) == -1 && pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

bool Child::read_more(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  if (left <= 0 || output_.size() > output_max) return false;
  pollfd entry{out_, POLLIN, 0};
  const int ready = ::poll(&entry, 1, static_cast<int>(left));
  if (ready < 0 && errno == EINTR) return true;
  if (ready <= 0) return false;
  char piece[4096];
  const ssize_t n = ::read(out_, piece, sizeof piece);
  if (n <= 0) return n < 0 && errno == EINTR;
  output_.append(piece, static_cast<size_t>(n));
  return true;
}

int Child::wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno == ECHILD)) {
      pid_ = -1;
      return ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    if (std::chrono::steady_clock::now() >= deadline) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

double Child::cpu_seconds() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
  std::string line;
  if (pid_ <= 0 || !std::getline(file, line)) return -1;
  // The program's name is in parentheses and may hold spaces (proc(5)): fields 14 and 15 are counted from its end.
  const size_t close = line.rfind(')');
  unsigned long user = 0, system = 0;
  if (close == std::string::npos ||
      std::sscanf(line.c_str() + close + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) !=
          2) {
    return -1;
  }
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace verbena::cli
