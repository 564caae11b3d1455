// A client of the fault tests, as a separate process so that it can be stopped and killed: moves objects through one
// door and compares every byte. It reports on standard output, a line each:
//
//   begin N                the N-th operation starts
//   ok N DOOR PROVIDER     it ended, and the bytes are right
//   error N CODE TEXT      it failed; the same client goes on
//
// --op abandon is one GET that must fail in the middle. Its memory is then reused and watched, while the same client
// goes on with small ones:
//
//   given up 1 CODE TEXT   the GET has failed
//   ok 1 untouched         nothing landed in that memory for --watch seconds
//
// Exit status: 0 after --count correct operations of each size, 1 when a byte was wrong, 3 when --for ran out before,
// or after SIGUSR1: it then ends with the operation in progress.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/checksum.h"
#include "verbena/client.h"

namespace {

using namespace verbena;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string endpoint, native, ca_file;
  std::string via = "native", provider = "verbs", op = "get", bucket = "faults", encryption = "auto";
  bool unverified = false;
  std::vector<uint64_t> sizes;
  uint64_t part_size = 0;
  unsigned count = 1, threads = 1, limit_s = 60, timeout_s = 10, watch_s = 6;
  unsigned attempts = 0;  // 0: as many as by default
};

std::atomic<bool> told_to_end{false};

void say(const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::puts(line.c_str());
  std::fflush(stdout);
}

// The bytes of an object of that size, whichever client wrote it.
std::vector<std::byte> content(uint64_t size) {
  std::vector<std::byte> bytes(size);
  uint64_t state = size;
  for (uint64_t at = 0; at < size; at += sizeof state) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    const uint64_t word = state ^ (state >> 33);
    std::memcpy(bytes.data() + at, &word, std::min<uint64_t>(sizeof word, size - at));
  }
  return bytes;
}

class Mover {
 public:
  Mover(const Arguments& arguments, unsigned index) : arguments_(arguments) {
    for (const uint64_t size : arguments.sizes) {
      Object object{.key = std::to_string(size), .bytes = content(size)};
      // "seed" writes what "get" reads.
      if (arguments.op == "put") object.key += "-" + arguments.via + "-" + std::to_string(index);
      object.crc = crc32c(Bytes(object.bytes));
      objects_.push_back(std::move(object));
    }
  }

  // Connects repeatedly: the server may be down.
  bool connect(Clock::time_point until) {
    while (!told_to_end && Clock::now() < until) {
      auto made = Client::connect(options(arguments_.via));
      auto plain = Client::connect(options("http"));
      if (made && plain) {
        client_.emplace(std::move(*made));
        plain_.emplace(std::move(*plain));
        if (auto memory = client_->allocate(std::ranges::max(arguments_.sizes) + 1)) {
          buffer_ = std::move(*memory);
          return true;
        }
        return false;
      }
      say("error 0 connect " + (made ? plain.error().message : made.error().message));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return false;
  }

  // Empty: done and right. "WRONG": a byte differs. Else the failure.
  std::string once(size_t index, std::string& how) {
    const Object& object = objects_[index];
    const uint64_t size = object.bytes.size();
    Transfer transfer;
    if (arguments_.op == "get" || arguments_.op == "abandon") {
      std::fill(buffer_.bytes().begin(), buffer_.bytes().end(), std::byte{0xee});
      auto got = client_->get(arguments_.bucket, object.key, buffer_.slice(0, std::max<uint64_t>(size, 1)));
      if (!got) return describe(got.error());
      if (got->bytes != size || !object.holds(buffer_.bytes().first(size)) ||
          buffer_.bytes()[size] != std::byte{0xee}) {
        return "WRONG";
      }
      transfer = got->transfer;
    } else {
      std::copy(object.bytes.begin(), object.bytes.end(), buffer_.bytes().begin());
      auto put = client_->put(arguments_.bucket, object.key, buffer_.slice(0, size));
      if (!put) return describe(put.error());
      transfer = put->transfer;
      std::vector<std::byte> back(size + 1);
      auto got = plain_->get(arguments_.bucket, object.key, std::span(back));
      if (!got) return describe(got.error());
      if (got->bytes != size || !object.holds(std::span(back).first(size))) return "WRONG";
    }
    how = std::string(to_string(transfer.door)) + " " + transfer.provider;
    return {};
  }

  // A GET that fails, and a check of its memory afterwards.
  int abandon() {
    say("begin 1");
    std::string how;
    const std::string why = once(0, how);
    if (why.empty() || why == "WRONG") {
      say(why.empty() ? "error 1 nothing failed" : "WRONG 1");
      return why.empty() ? 3 : 1;
    }
    constexpr std::byte reused{0xa5};
    std::fill(buffer_.bytes().begin(), buffer_.bytes().end(), reused);
    say("given up 1 " + why);
    unsigned small = 0;
    for (const auto end = Clock::now() + std::chrono::seconds(arguments_.watch_s); Clock::now() < end;) {
      std::byte one[1];
      small += client_->get(arguments_.bucket, "1", std::span(one)) ? 1 : 0;
      if (!std::ranges::all_of(buffer_.bytes(), [](std::byte b) { return b == reused; })) {
        say("WRONG 1");
        return 1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    say(small > 0 ? "ok 1 untouched" : "error 1 no small one came");
    return small > 0 ? 0 : 3;
  }

 private:
  static std::string describe(const ClientError& error) {
    return std::string(to_string(error.code)) + " " + error.message;
  }
  ClientOptions options(const std::string& via) const {
    ClientOptions out;
    out.endpoint = arguments_.endpoint;
    out.native_endpoint = arguments_.native;
    out.ca_file = arguments_.ca_file;
    out.access_key = std::getenv("AWS_ACCESS_KEY_ID");
    out.secret_key = std::getenv("AWS_SECRET_ACCESS_KEY");
    out.via = *parse_via(via);
    out.provider = via == "http" ? "auto" : arguments_.provider;
    if (arguments_.attempts != 0) out.attempts_max = arguments_.attempts;
    if (arguments_.op == "abandon") out.attempts_max = 1;
    out.token_size_min = 0;
    if (via != "http") out.encryption = arguments_.encryption;
    out.verify_checksums = !arguments_.unverified;
    out.operation_timeout = std::chrono::seconds(arguments_.timeout_s);
    out.connect_timeout = std::chrono::seconds(20);  // several at once, on an emulated CPU
    if (arguments_.part_size != 0) {
      out.part_size = arguments_.part_size;
      out.multipart_threshold = arguments_.part_size;
      out.parts_in_flight = 1;  // a token has 4 s, on an emulated CPU
    }
    return out;
  }

  struct Object {
    std::string key;
    std::vector<std::byte> bytes;
    uint32_t crc = 0;
    bool holds(std::span<const std::byte> other) const { return crc32c(Bytes(other)) == crc; }
  };
  const Arguments& arguments_;
  std::vector<Object> objects_;
  std::optional<Client> client_, plain_;
  Buffer buffer_;
};

int move(const Arguments& arguments, unsigned index, Clock::time_point until) {
  Mover mover(arguments, index);
  if (!mover.connect(until)) return 3;
  if (arguments.op == "abandon") return mover.abandon();
  const uint64_t all = arguments.count * arguments.sizes.size();
  for (uint64_t done = 0, tried = 1; done < all; ++tried) {
    if (told_to_end || Clock::now() > until) return 3;
    const std::string number = std::to_string(tried);
    say("begin " + number);
    std::string how;
    const std::string why = mover.once(done % arguments.sizes.size(), how);
    if (why == "WRONG") {
      say("WRONG " + number);
      return 1;
    }
    if (why.empty()) {
      ++done;
      say("ok " + number + " " + how);
    } else {
      say("error " + number + " " + why);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("moves objects and compares every byte");
  app.add_option("--endpoint", arguments.endpoint)->required();
  app.add_option("--native", arguments.native)->required();
  app.add_option("--ca-file", arguments.ca_file, "PEM of the authority to trust, for https");
  app.add_option("--via", arguments.via)->check(CLI::IsMember({"native", "token", "http"}));
  app.add_option("--op", arguments.op)->check(CLI::IsMember({"get", "put", "seed", "abandon"}));
  app.add_option("--provider", arguments.provider, "of the native door, or of tokens");
  app.add_option("--encryption", arguments.encryption, "of RDMA");
  app.add_option("--unverified", arguments.unverified, "1: the client compares no checksum itself");
  app.add_option("--watch", arguments.watch_s, "seconds for which --op abandon looks at its memory");
  app.add_option("--bucket", arguments.bucket);
  app.add_option("--size", arguments.sizes, "bytes, one or several")->delimiter(',')->required();
  app.add_option("--part-size", arguments.part_size, "bytes; PUTs above it go in parts");
  app.add_option("--count", arguments.count, "operations of each size that must be right, each thread");
  app.add_option("--threads", arguments.threads, "clients of their own");
  app.add_option("--for", arguments.limit_s, "seconds until it gives up");
  app.add_option("--timeout", arguments.timeout_s, "seconds without progress that end one operation");
  app.add_option("--attempts", arguments.attempts, "of one operation");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGUSR1, [](int) { told_to_end = true; });
  const auto until = Clock::now() + std::chrono::seconds(arguments.limit_s);
  std::atomic<int> worst{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < arguments.threads; ++i) {
    threads.emplace_back([&, i] {
      const int status = move(arguments, i, until);
      for (int seen = worst; status != 0 && seen != 1 && !worst.compare_exchange_weak(seen, status);) {
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return worst;
}
