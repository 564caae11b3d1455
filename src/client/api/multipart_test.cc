// Large PUTs in parts, by HTTP to scripted servers.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <system_error>
#include <thread>

#include "base/bytes.h"
#include "client/api/part_sizes.h"
#include "client/testing/scripted_client.h"
#include "verbena/client.h"

namespace verbena::client {
namespace {

using namespace std::chrono_literals;

Client client_of_parts(const net::ScriptedServer& server) {
  ClientOptions options = http_options(server);
  options.multipart_threshold = options.part_size = 5 * MiB;
  return *Client::connect(options);
}

std::string an_upload() {
  return net::http_reply(200, "",
                         "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>");
}

// At a frozen server, whichever request hangs: the abort must not wait for it either.
TEST(Multipart, ACancelledPutIsCancelledAndNothingOfItIsSentAgain) {
  for (const std::string frozen : {"POST /b/k?uploads", "PUT ", "POST /b/k?uploadId"}) {
    std::atomic<bool> over{false};
    std::stop_source stop;
    {
      net::ScriptedServer server([&](const net::ScriptedRequest& request, int) {
        if (request.head.starts_with(frozen)) stop.request_stop();
        while (stop.stop_requested() && !over) std::this_thread::sleep_for(1ms);
        return request.has("?uploads") ? an_upload() : net::http_reply(200, "etag: \"e\"\r\n", "");
      });
      const Client client = client_of_parts(server);
      const std::vector<std::byte> bytes(6 * MiB);
      PutOptions options;
      options.cancel = stop.get_token();
      const auto begun = std::chrono::steady_clock::now();
      const auto put = client.put("b", "k", std::span(bytes), options);
      EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
      over = true;
      ASSERT_FALSE(put);
      EXPECT_EQ(put.error().code, ErrorCode::cancelled) << frozen << put.error().message;
      const auto requests = server.requests();
      const auto is_frozen = [&](const net::ScriptedRequest& request) { return request.head.starts_with(frozen); };
      EXPECT_LE(std::ranges::count_if(requests, is_frozen), frozen == "PUT " ? 2 : 1);
    }
  }
}

constexpr uid_t nobody_here = 64'321;  // the limit does not hold for root

// The thread sanitizer lets no fork of a process of several threads start one.
#ifdef __SANITIZE_THREAD__
constexpr bool fork_may_start_threads = false;
#else
constexpr bool fork_may_start_threads = true;
#endif

bool can_start_a_thread() {
  try {
    std::jthread([] {});
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

// It threw out of the call, which is not to throw, and left the upload at the server.
TEST(WithoutThreads, AnUploadInPartsIsDoneByTheCallersThread) {
  if (!fork_may_start_threads) GTEST_SKIP() << "the thread sanitizer ends the fork";
  net::ScriptedServer server([](const net::ScriptedRequest& request, int) {
    if (request.has("?uploads")) return an_upload();
    if (request.head.starts_with("POST ")) {
      return net::http_reply(200, "", "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>");
    }
    return net::http_reply(200, "etag: \"e\"\r\n", "");
  });
  ClientOptions options = http_options(server);
  options.multipart_threshold = options.part_size = 5 * MiB;
  const std::vector<std::byte> bytes(16 * MiB);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0 ||
        (::getuid() == 0 && ::setresuid(nobody_here, nobody_here, nobody_here) != 0) || can_start_a_thread()) {
      ::_exit(77);
    }
    auto client = Client::connect(options);
    if (!client) ::_exit(2);
    (void)client->put("b", "k", std::span(bytes));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "threads cannot be forbidden here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  size_t parts = 0, completions = 0;
  for (const net::ScriptedRequest& request : server.requests()) {
    parts += request.head.starts_with("PUT /b/k?") ? 1 : 0;
    completions += request.head.starts_with("POST /b/k?uploadId") ? 1 : 0;
  }
  EXPECT_EQ(parts, 4u);
  EXPECT_EQ(completions, 1u);
}

// It replaced the existing object with a new one, silently.
TEST(Multipart, AStreamThatIsTooLongForOneAppendIsRefused) {
  net::ScriptedServer server([](const net::ScriptedRequest& request, int) {
    return request.has("?uploads") ? an_upload() : net::http_reply(200, "etag: \"e\"\r\n", "");
  });
  const Client client = client_of_parts(server);
  PutOptions options;
  options.append_at = 7;
  const auto put = client.put_stream("b", "k", [](std::span<std::byte> into) { return into.size(); }, options);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, ErrorCode::unsupported) << put.error().message;
  EXPECT_TRUE(server.requests().empty());
}

// It ended after 10,000 parts of part_size, 156 GiB of the command line's.
TEST(Multipart, ThePartsOfAStreamAreAsLargeAsItsSizeNeeds) {
  net::ScriptedServer server([](const net::ScriptedRequest& request, int) {
    return request.has("?uploads") ? an_upload() : net::http_reply(200, "etag: \"e\"\r\n", "");
  });
  const Client client = client_of_parts(server);
  PutOptions options;
  options.stream_size = 60'000 * MiB;
  uint64_t left = 13 * MiB;
  const Reader reader = [&](std::span<std::byte> into) {
    const size_t n = std::min<uint64_t>(left, into.size());
    left -= n;
    return n;
  };
  (void)client.put_stream("b", "k", reader, options);
  const auto requests = server.requests();
  for (const auto& [part, size] : {std::pair("partNumber=1&", 6 * MiB), std::pair("partNumber=3&", 1 * MiB)}) {
    const auto sent = std::ranges::find_if(requests, [&](const auto& request) { return request.has(part); });
    ASSERT_NE(sent, requests.end());
    EXPECT_EQ(sent->body.size(), size);
  }
}

// Four parts of any size were in memory at once.
TEST(Multipart, OfLargerPartsOfAStreamFewerAreInMemoryAtOnce) {
  constexpr int parts = 6;
  std::atomic<int> now = 0;
  std::atomic<bool> more_than_two = false;
  net::ScriptedServer server([&](const net::ScriptedRequest& request, int) {
    if (request.has("?uploads")) return an_upload();
    if (request.head.starts_with("PUT ")) {
      if (++now > 2) more_than_two = true;
      for (int i = 0; i < 100 && !more_than_two; ++i) std::this_thread::sleep_for(1ms);
      --now;
    }
    return net::http_reply(200, "etag: \"e\"\r\n", "");
  });
  const Client client = client_of_parts(server);
  PutOptions options;
  options.stream_size = parts_max * 10 * MiB;
  uint64_t left = parts * 10 * MiB;
  const Reader reader = [&](std::span<std::byte> into) {
    const size_t n = std::min<uint64_t>(left, into.size());
    left -= n;
    return n;
  };
  (void)client.put_stream("b", "k", reader, options);
  EXPECT_FALSE(more_than_two);
  const auto requests = server.requests();
  EXPECT_EQ(std::ranges::count_if(requests, [](const auto& one) { return one.head.starts_with("PUT "); }), parts);
}

TEST(Multipart, ThePartsOfAStreamOfUnknownSizeGrow) {
  PartSizes sizes(16 * MiB, 0);
  uint64_t all = 0;
  for (uint64_t i = 0; i < parts_max; ++i) {
    const uint64_t size = sizes.next();
    EXPECT_TRUE(i >= 500 || size == 16 * MiB);
    EXPECT_LE(size, put_size_max);
    EXPECT_LE(sizes.at_once(4) * size, std::max(4 * 16 * MiB, 2 * size));
    EXPECT_GE(sizes.at_once(4), 2u);
    EXPECT_EQ(sizes.at_once(1), 1u);
    all += size;
    EXPECT_TRUE(all >= 40 * GiB || sizes.at_once(4) * size <= 96 * MiB);
  }
  EXPECT_GE(all, 5'000 * GiB);
  PartSizes known(16 * MiB, 5'000 * GiB);
  for (uint64_t i = 0; i < parts_max; ++i) EXPECT_EQ(known.next(), 5'000 * GiB / parts_max);
}

}  // namespace
}  // namespace verbena::client
