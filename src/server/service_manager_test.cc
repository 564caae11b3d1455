#include "server/service_manager.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>

#include "base/fd.h"

namespace verbena::server {
namespace {

class ServiceManagerTest : public ::testing::Test {
 protected:
  ServiceManagerTest() {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    base = name;
    clear();
  }
  ~ServiceManagerTest() override {
    clear();
    std::error_code ignored;
    std::filesystem::remove_all(base, ignored);
  }
  static void clear() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }
  // systemd's side of it: a bound datagram socket, a path or (with '@') an abstract name.
  Fd listen(const std::string& name) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    name.copy(at.sun_path, sizeof at.sun_path - 1);
    if (name[0] == '@') at.sun_path[0] = '\0';
    Fd fd(::socket(AF_UNIX, SOCK_DGRAM, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&at), size), 0) << name;
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    return fd;
  }
  static std::string received(const Fd& fd) {
    char text[1024];
    const ssize_t n = ::recv(fd.get(), text, sizeof text, MSG_DONTWAIT);
    return n < 0 ? "nothing" : std::string(text, static_cast<size_t>(n));
  }
  std::filesystem::path base;
};

TEST_F(ServiceManagerTest, SaysWhatSystemdWaitsFor) {
  const std::string path = (base / "notify").string();
  for (const std::string& name : {path, "@verbena-test-" + base.filename().string()}) {
    const Fd fd = listen(name);
    const auto manager = ServiceManager::from_environment();
    manager.ready("S3 http://127.0.0.1:9000");
    EXPECT_EQ(received(fd), "READY=1\nSTATUS=S3 http://127.0.0.1:9000");
    manager.reloading();
    EXPECT_TRUE(received(fd).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    manager.alive();
    EXPECT_EQ(received(fd), "WATCHDOG=1");
    manager.stopping();
    EXPECT_TRUE(received(fd).starts_with("STOPPING=1\n"));
  }
}

TEST_F(ServiceManagerTest, AStatusIsOneLineWhateverIsInIt) {
  const Fd fd = listen((base / "notify").string());
  ServiceManager::from_environment().ready("a\nMAINPID=1");
  EXPECT_EQ(received(fd).find("\nMAINPID"), std::string::npos);
}

TEST_F(ServiceManagerTest, WithoutOneItIsSilent) {
  const auto manager = ServiceManager::from_environment();
  EXPECT_FALSE(manager.watchdog());
  manager.ready("x");
  ::setenv("NOTIFY_SOCKET", "relative/path", 1);
  ServiceManager::from_environment().alive();
}

TEST_F(ServiceManagerTest, TheWatchdogIsThisProcesssOwnAndBounded) {
  const Fd fd = listen((base / "notify").string());
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  EXPECT_EQ(ServiceManager::from_environment().watchdog(), std::chrono::seconds(30));
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_FALSE(ServiceManager::from_environment().watchdog());
  ::unsetenv("WATCHDOG_PID");
  for (const char* wrong : {"", "x", "-1", "5x", "0", "99999999999999999999999"}) {
    ::setenv("WATCHDOG_USEC", wrong, 1);
    EXPECT_FALSE(ServiceManager::from_environment().watchdog()) << wrong;
  }
}

}  // namespace
}  // namespace verbena::server
