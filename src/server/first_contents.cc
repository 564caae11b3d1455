#include "server/first_contents.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <cerrno>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "s3/service.h"

namespace verbena::server {
namespace {

namespace fs = std::filesystem;
using Step = std::expected<void, std::string>;

class FileSource final : public memory::Source {
 public:
  FileSource(Fd file, uint64_t size) : file_(std::move(file)), size_(size) {}
  std::optional<uint64_t> size() const override { return size_; }
  // No client is served yet: it may wait for the disk here.
  Task<Result<size_t>> read(MutableBytes into) override {
    size_t have = 0;
    while (have < into.size()) {
      const ssize_t n = ::read(file_.get(), into.data() + have, into.size() - have);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) co_return fail(Errc::io_error, "read", errno);
      if (n == 0) break;
      have += static_cast<size_t>(n);
    }
    co_return have;
  }

 private:
  const Fd file_;
  const uint64_t size_;
};

// By the file's name, as browsers and tools expect; S3's own default for the rest.
std::string_view content_type(const fs::path& file) {
  static constexpr std::pair<std::string_view, std::string_view> types[] = {
      {".avif", "image/avif"},       {".css", "text/css"},          {".csv", "text/csv"},
      {".gif", "image/gif"},         {".gz", "application/gzip"},   {".htm", "text/html"},
      {".html", "text/html"},        {".jpeg", "image/jpeg"},       {".jpg", "image/jpeg"},
      {".js", "text/javascript"},    {".json", "application/json"}, {".md", "text/markdown"},
      {".mjs", "text/javascript"},   {".mp3", "audio/mpeg"},        {".mp4", "video/mp4"},
      {".pdf", "application/pdf"},   {".png", "image/png"},         {".svg", "image/svg+xml"},
      {".tar", "application/x-tar"}, {".txt", "text/plain"},        {".wasm", "application/wasm"},
      {".webp", "image/webp"},       {".xml", "application/xml"},   {".yaml", "application/yaml"},
      {".yml", "application/yaml"},  {".zip", "application/zip"},
  };
  const std::string extension = file.extension().string();
  for (const auto& [name, type] : types) {
    if (name == extension) return type;
  }
  return "binary/octet-stream";
}

std::unexpected<std::string> wrong(const fs::path& file, const std::string& why) {
  return std::unexpected("seed: " + file.string() + ": " + why);
}

class Filler {
 public:
  Filler(s3::Service& service, const call::Call& caller) : service_(service), caller_(caller) {}

  Task<Step> run(const FirstContents& contents) {
    for (const std::string& bucket : contents.buckets) {
      auto made = co_await make_bucket(bucket);
      if (!made) co_return std::unexpected("bucket " + bucket + ": " + made.error());
    }
    if (contents.seed.empty()) co_return Step{};
    std::error_code ec;
    fs::directory_iterator it(contents.seed, ec), end;
    for (; !ec && it != end; it.increment(ec)) {
      auto done = co_await seed_bucket(it->path());
      if (!done) co_return done;
    }
    if (ec) co_return wrong(contents.seed, ec.message());
    co_return Step{};
  }
  const Filled& filled() const { return filled_; }

 private:
  Task<Step> make_bucket(std::string name) {
    auto made = co_await s3::create_bucket(service_, caller_, name, store::Durability::sync);
    if (!made && made.error() != Errc::bucket_already_owned_by_you) co_return std::unexpected(describe(made.error()));
    if (made) ++filled_.buckets;
    co_return Step{};
  }

  Task<Step> seed_bucket(fs::path folder) {
    const std::string bucket = folder.filename().string();
    if (bucket.starts_with('.')) co_return Step{};  // hidden files of desktops and repositories
    std::error_code ec;
    if (!fs::is_directory(folder, ec)) {
      co_return wrong(folder, "is no folder; objects lie in the folders of their buckets: SEED/BUCKET/KEY");
    }
    auto made = co_await make_bucket(bucket);
    if (!made) co_return wrong(folder, made.error());
    fs::recursive_directory_iterator it(folder, ec), end;
    for (; !ec && it != end; it.increment(ec)) {
      if (it->is_directory(ec)) {
        // A link could lead back up.
        if (it->is_symlink(ec)) co_return wrong(it->path(), "is a link to a folder");
        continue;
      }
      auto put = co_await put_file(bucket, it->path().lexically_relative(folder).generic_string(), it->path());
      if (!put) co_return put;
    }
    if (ec) co_return wrong(folder, ec.message());
    co_return Step{};
  }

  Task<Step> put_file(std::string bucket, std::string key, fs::path path) {
    // A pipe, which would delay the start, is opened without waiting and then refused.
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) co_return wrong(path, std::strerror(errno));
    if (!S_ISREG(status.st_mode)) co_return wrong(path, "is neither a file nor a folder");
    const auto size = static_cast<uint64_t>(status.st_size);
    FileSource source(std::move(file), size);
    s3::PutRequest request;
    request.bucket = std::move(bucket);
    request.key = std::move(key);
    request.headers = {{"content-type", std::string(content_type(path))}};
    auto put = co_await s3::put_object(service_, caller_, std::move(request), source);
    if (!put) co_return wrong(path, describe(put.error()));
    ++filled_.objects;
    filled_.bytes += size;
    co_return Step{};
  }

  s3::Service& service_;
  const call::Call& caller_;
  Filled filled_;
};

}  // namespace

std::expected<Filled, std::string> fill(s3::Service& service, const call::Call& caller, const FirstContents& contents) {
  Filler filler(service, caller);
  boost::asio::io_context io;
  // Other threads (the pool, the digests') post their results here.
  auto until_done = boost::asio::make_work_guard(io);
  Step done;
  std::exception_ptr thrown;
  boost::asio::co_spawn(io, filler.run(contents), [&](std::exception_ptr error, Step result) {
    thrown = error;
    done = std::move(result);
    until_done.reset();
  });
  io.run();
  if (thrown) std::rethrow_exception(thrown);
  if (!done) return std::unexpected(done.error());
  return filler.filled();
}

}  // namespace verbena::server
