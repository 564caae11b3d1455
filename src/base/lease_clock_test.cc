#include "base/lease_clock.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace verbena {
namespace {

constexpr int shown = 0, hidden = 1, not_allowed = 2;

// Run in a process whose clocks show a suspension of an hour.
int look_after_a_suspension() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWTIME) != 0) return not_allowed;
  const int offsets = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
  constexpr std::string_view an_hour = "boottime 3600 0\n";
  const bool set = offsets >= 0 && write(offsets, an_hour.data(), an_hour.size()) == ssize_t(an_hour.size());
  if (offsets >= 0) close(offsets);
  if (!set) return not_allowed;
  const auto before = LeaseClock::suspended();
  const pid_t child = fork();  // runs in the new name space
  if (child == 0) {
    _exit(LeaseClock::suspended() - before > std::chrono::minutes(59) ? shown : hidden);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : hidden;
}

TEST(LeaseClock, CountsTheTimeThatTheMachineWasSuspended) {
  const pid_t child = fork();
  if (child == 0) _exit(look_after_a_suspension());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == not_allowed) GTEST_SKIP() << "no name space for clocks can be made here";
  EXPECT_EQ(WEXITSTATUS(status), shown);
}

TEST(LeaseClock, ATestMaySuspendTheMachine) {
  const auto slept = LeaseClock::suspended();
  const auto before = LeaseClock::now();
  LeaseClock::pretend_suspension(std::chrono::hours(2));
  EXPECT_GE(LeaseClock::now() - before, std::chrono::hours(2));
  EXPECT_GE(LeaseClock::suspended() - slept, std::chrono::hours(2) - std::chrono::seconds(1));
}

}  // namespace
}  // namespace verbena
