// A log writer and its reader, through the client library: used by tests that kill the server, and by the benchmark.
//
//   append_log write DOOR BUCKET KEY COUNT IN_FLIGHT   appends records until the log has COUNT of them; prints the
//   number
//                                                      of acknowledged ones as it grows, and at the end the rate
//   append_log write_each ...                          likewise, each append a message of its own
//   append_log tail DOOR BUCKET KEY COUNT              follows the log by ranges until it has seen COUNT records, each
//                                                      once and in order
//   append_log burst DOOR BUCKET KEY COUNT IN_FLIGHT   appends COUNT records, each at its offset if all before it are
//                                                      stored, whatever their outcomes; prints each one's answer:
//                                                      "record NUMBER SIZE-OF-THE-OBJECT" or "record NUMBER CODE"
//   append_log burst_at_end ...                        likewise, at the end of the object
//   append_log put DOOR BUCKET KEY COUNT IN_FLIGHT     a PUT of one record for each, for comparison
//   append_log rename DOOR BUCKET KEY COUNT 1          renames KEY.a to KEY.b and back
//   append_log touch DOOR BUCKET KEY COUNT 1           a PUT of an empty object for each
//
// Endpoints and keys come from VERBENA_ENDPOINT, VERBENA_NATIVE, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for a
// session, AWS_SESSION_TOKEN.
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "verbena/client.h"

namespace {

constexpr size_t record_size = 200;

std::string record(uint64_t number) {
  char head[32];
  const int size = std::snprintf(head, sizeof head, "%012llu ", static_cast<unsigned long long>(number));
  std::string text(record_size, static_cast<char>('a' + number % 26));
  std::memcpy(text.data(), head, static_cast<size_t>(size));
  text.back() = '\n';
  return text;
}

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

verbena::Client connect(const std::string& door, unsigned in_flight) {
  verbena::ClientOptions options;
  options.endpoint = env("VERBENA_ENDPOINT");
  options.native_endpoint = env("VERBENA_NATIVE");
  options.access_key = env("AWS_ACCESS_KEY_ID");
  options.secret_key = env("AWS_SECRET_ACCESS_KEY");
  options.session_token = env("AWS_SESSION_TOKEN");
  options.via = door == "native" ? verbena::Via::native : door == "token" ? verbena::Via::token : verbena::Via::http;
  if (door == "token") options.provider = "tcp";
  options.token_size_min = 1;
  options.connections_max = in_flight;
  options.async_threads = in_flight;
  options.attempts_max = 1;
  options.operation_timeout = std::chrono::seconds(10);
  auto client = verbena::Client::connect(options);
  if (!client) {
    std::fprintf(stderr, "connect: %s\n", client.error().message.c_str());
    std::exit(3);
  }
  return std::move(*client);
}

int failed(const char* what, const verbena::ClientError& error) {
  std::fprintf(stderr, "%s: %s %s\n", what, error.s3_code.c_str(), error.message.c_str());
  return error.s3_code == "InvalidWriteOffset" ? 2 : 3;
}

uint64_t size_of(const verbena::Client& client, const std::string& bucket, const std::string& key) {
  const auto info = client.head(bucket, key);
  if (info) return info->size;
  if (info.error().code != verbena::ErrorCode::no_such_key) std::exit(failed("head", info.error()));
  return 0;
}

// Several appends in flight, each with its offset, so that an answer counts for its own record alone. The window starts
// at the first record that is not acknowledged.
struct Window {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> done;
  uint64_t first = 0, next = 0;  // of the records
  int outcome = 0;
};

template <class Start>
int run_window(uint64_t from, uint64_t count, unsigned in_flight, const Start& start) {
  Window window;
  window.first = window.next = from;
  window.done.resize(count);
  std::unique_lock lock(window.mutex);
  uint64_t told = from;
  while (window.first < count && window.outcome == 0) {
    if (window.next < count && window.next - window.first < in_flight) {
      const uint64_t number = window.next++;
      lock.unlock();
      start(number, [&window, number](int outcome) {
        const std::lock_guard guard(window.mutex);
        if (outcome != 0 && window.outcome == 0) window.outcome = outcome;
        window.done[number] = outcome == 0;
        while (window.first < window.done.size() && window.done[window.first]) ++window.first;
        window.changed.notify_one();
      });
      lock.lock();
      continue;
    }
    const uint64_t before = window.first;
    window.changed.wait(lock, [&] { return window.first != before || window.outcome != 0; });
    if (window.first >= told + 256 || window.first == count) {
      told = window.first;
      std::printf("acknowledged %llu\n", static_cast<unsigned long long>(told));
      std::fflush(stdout);
    }
  }
  std::printf("acknowledged %llu\n", static_cast<unsigned long long>(window.first));
  std::fflush(stdout);
  if (window.outcome != 0) std::_Exit(window.outcome);  // others are still in flight
  return 0;
}

verbena::Buffer buffer_of(const verbena::Client& client, const std::string& text) {
  auto buffer = client.allocate(text.size());
  if (!buffer) std::exit(failed("allocate", buffer.error()));
  std::memcpy(buffer->bytes().data(), text.data(), text.size());
  return std::move(*buffer);
}

int write(const verbena::Client& client, const std::string& bucket, const std::string& key, uint64_t count,
          unsigned in_flight, bool append, bool alone) {
  const uint64_t size = append ? size_of(client, bucket, key) : 0;
  if (size % record_size != 0) {
    std::fprintf(stderr, "the log ends in the midst of a record: %llu\n", static_cast<unsigned long long>(size));
    return 1;
  }
  std::vector<verbena::Buffer> buffers;
  for (unsigned i = 0; i < in_flight; ++i) buffers.push_back(buffer_of(client, record(0)));
  return run_window(size / record_size, count, in_flight, [&](uint64_t number, auto done) {
    verbena::Buffer& from = buffers[number % in_flight];
    const std::string text = record(number);
    std::memcpy(from.bytes().data(), text.data(), text.size());
    verbena::PutOptions options;
    std::string name = key;
    if (append) {
      options.append_at = number * record_size;
      options.describe = alone;  // an append with this option shares no message
    } else {
      name += "-" + std::to_string(number % in_flight);
    }
    client.put_async(bucket, name, from, options, [done](verbena::Outcome<verbena::PutReply> reply) {
      done(reply ? 0 : failed("put", reply.error()));
    });
  });
}

int burst(const verbena::Client& client, const std::string& bucket, const std::string& key, uint64_t count,
          unsigned in_flight, bool at_end) {
  std::counting_semaphore<> free(in_flight);
  std::vector<std::string> texts, outcomes(count);
  for (uint64_t number = 0; number < count; ++number) texts.push_back(record(number));
  for (uint64_t number = 0; number < count; ++number) {
    free.acquire();
    const auto from = client.register_memory(texts[number].data(), texts[number].size());
    verbena::PutOptions options;
    options.append_at = at_end ? verbena::append_at_end : number * record_size;
    client.put_async(bucket, key, *from, options, [&, number](verbena::Outcome<verbena::PutReply> reply) {
      const std::string code =
          reply || !reply.error().s3_code.empty() ? "" : std::string(to_string(reply.error().code));
      outcomes[number] = reply ? std::to_string(reply->object_size) : reply.error().s3_code + code;
      free.release();
    });
  }
  for (unsigned i = 0; i < in_flight; ++i) free.acquire();
  for (uint64_t number = 0; number < count; ++number) {
    std::printf("record %llu %s\n", static_cast<unsigned long long>(number), outcomes[number].c_str());
  }
  return 0;
}

int tail(const verbena::Client& client, const std::string& bucket, const std::string& key, uint64_t count) {
  std::vector<std::byte> into(1 << 20);
  uint64_t seen = 0;
  while (seen < count) {
    verbena::GetOptions options;
    options.range = verbena::Range{seen * record_size, into.size() / record_size * record_size};
    const auto got = client.get(bucket, key, std::span(into), options);
    if (!got) {
      const auto code = got.error().code;
      const bool early = code == verbena::ErrorCode::no_such_key || code == verbena::ErrorCode::invalid_range;
      if (!early) return failed("get", got.error());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    const std::string_view text(reinterpret_cast<const char*>(into.data()), got->bytes);
    if (text.size() % record_size != 0) {
      std::fprintf(stderr, "a reader saw %zu bytes, which are no whole records\n", text.size());
      return 1;
    }
    for (size_t at = 0; at < text.size(); at += record_size, ++seen) {
      if (text.substr(at, record_size) == record(seen)) continue;
      std::fprintf(stderr, "record %llu is not itself: %.20s\n", static_cast<unsigned long long>(seen),
                   std::string(text.substr(at, 20)).c_str());
      return 1;
    }
  }
  std::printf("seen %llu\n", static_cast<unsigned long long>(seen));
  return 0;
}

int rename(const verbena::Client& client, const std::string& bucket, const std::string& key, uint64_t count) {
  const std::string names[2] = {key + ".a", key + ".b"};
  const std::string text = record(0);
  const auto put = client.put(bucket, names[0], std::as_bytes(std::span(text)));
  if (!put) return failed("put", put.error());
  for (uint64_t i = 0; i < count; ++i) {
    const auto renamed = client.rename(bucket, names[i % 2], names[(i + 1) % 2]);
    if (!renamed) return failed("rename", renamed.error());
  }
  return 0;
}

int touch(const verbena::Client& client, const std::string& bucket, const std::string& key, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const auto put = client.put(bucket, key, std::span<const std::byte>());
    if (!put) return failed("put", put.error());
  }
  return 0;
}

uint64_t number_of(const char* text) {
  uint64_t value = 0;
  std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fprintf(stderr,
                 "usage: append_log write|write_each|tail|burst|burst_at_end|put|rename|touch DOOR BUCKET KEY COUNT "
                 "[IN_FLIGHT]\n");
    return 64;
  }
  const std::string what = argv[1], door = argv[2], bucket = argv[3], key = argv[4];
  const uint64_t count = number_of(argv[5]);
  const auto in_flight = static_cast<unsigned>(argc > 6 ? number_of(argv[6]) : 1);
  const verbena::Client client = connect(door, std::max(in_flight, 1u));
  const auto began = std::chrono::steady_clock::now();
  int status = 64;
  if (what == "write" || what == "write_each" || what == "put") {
    status = write(client, bucket, key, count, std::max(in_flight, 1u), what != "put", what == "write_each");
  } else if (what == "burst" || what == "burst_at_end") {
    status = burst(client, bucket, key, count, std::max(in_flight, 1u), what == "burst_at_end");
  } else if (what == "tail") {
    status = tail(client, bucket, key, count);
  } else if (what == "rename") {
    status = rename(client, bucket, key, count);
  } else if (what == "touch") {
    status = touch(client, bucket, key, count);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
  std::printf("rate %.0f\n", static_cast<double>(count) / taken.count());
  return status;
}
