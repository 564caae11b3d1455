// put, append, mv and get.
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>

#include "base/bytes.h"
#include "cli/object_commands.h"
#include "cli/report.h"
#include "cli/s3_address.h"
#include "cli/transfer_file.h"
#include "cli/tree_walk.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;

// Local files that cannot be opened are reported under their own name, everything else under the object's.
int failed(const std::string& object, const std::string& file, const ClientError& error) {
  if (error.message.starts_with(file + ": ")) {
    return report(file, shown(error.message.substr(file.size() + 2)), exit_code_for(error.code));
  }
  return report(object, error);
}

bool put_options(const CopyArguments& arguments, PutOptions& options) {
  options.content_type = arguments.content_type;
  for (const std::string& pair : arguments.metadata) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      report("--meta " + pair, "expected NAME=VALUE", exit_usage);
      return false;
    }
    options.metadata[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return true;
}

// What became of one file of a run.
struct Ended {
  int code = exit_ok;
  bool ends_run = false;
};

Ended put_one(const Client& client, const CopyArguments& arguments, const std::string& file, const S3Address& to,
              const PutOptions& options, RunFailures& failures) {
  auto put = upload(client, file, to.bucket, to.key, options, !arguments.client.quiet);
  if (!put) return {failed(to.text(), file, put.error()), failures.ended_by(put.error())};
  failures.succeeded();
  if (arguments.client.verbose) tell_transfer(to.text(), put->transfer);
  return {};
}

int put_folder(const Client& client, const CopyArguments& arguments, S3Address to, const PutOptions& options) {
  if (!to.key.empty() && !to.key.ends_with('/')) to.key += '/';
  auto files = walk_folder(arguments.from, {});
  if (!files) return failed(arguments.from, arguments.from, files.error());
  int worst = exit_ok;
  RunFailures failures;
  for (;;) {
    const auto found = (*files)->next();
    if (!found) {  // the walk goes on behind it, as the upload does behind a file that fails
      worst = failed(arguments.from, arguments.from, found.error());
      continue;
    }
    if (!*found) return worst;
    const std::string& relative = (*found)->relative;
    const S3Address object{to.bucket, to.key + relative};
    const Ended put =
        put_one(client, arguments, (fs::path(arguments.from) / relative).string(), object, options, failures);
    if (put.code != exit_ok) worst = put.code;
    if (put.ends_run) return worst;
  }
}

Ended get_one(const Client& client, const CopyArguments& arguments, const S3Address& from, const std::string& file,
              PathFrom path_from, RunFailures& failures) {
  auto got = download(client, from.bucket, from.key, file, path_from, !arguments.client.quiet && file != "-");
  if (!got) return {failed(from.text(), file, got.error()), failures.ended_by(got.error())};
  failures.succeeded();
  if (arguments.client.verbose) tell_transfer(from.text(), got->transfer);
  return {};
}

int get_below(const Client& client, const CopyArguments& arguments, const S3Address& from) {
  const fs::path folder = arguments.to.empty() ? fs::path(".") : fs::path(arguments.to);
  // "s3://b/photos/2026" puts 2026/x at FOLDER/2026/x, "s3://b/photos/2026/" puts it at FOLDER/x.
  const size_t cut = from.key.rfind('/') == std::string::npos ? 0 : from.key.rfind('/') + 1;
  int worst = exit_ok;
  RunFailures failures;
  size_t found = 0;
  auto listed = client.for_each(from.bucket, from.key, [&](const ObjectInfo& info) {
    ++found;
    const S3Address object{from.bucket, info.key};
    const std::string_view relative = std::string_view(info.key).substr(cut);
    if (relative.empty() || relative.ends_with('/')) return true;  // a folder marker
    const auto path = local_path(folder, relative);
    if (!path) {
      worst = report(object.text(), "skipped: its key is not a safe file name", exit_failure);
      return true;
    }
    std::error_code ec;
    fs::create_directories(path->parent_path(), ec);
    if (ec) {
      worst = report(path->parent_path().string(), ec.message(), exit_failure);
      return false;
    }
    const Ended got = get_one(client, arguments, object, path->string(), PathFrom::key, failures);
    if (got.code != exit_ok) worst = got.code;
    return !got.ends_run;
  });
  if (!listed) return report(from.text(), listed.error());
  if (found == 0) return report(from.text(), "no key begins with this", exit_not_found);
  return worst;
}

}  // namespace

int run_put(const CopyArguments& arguments) {
  auto to = parse_s3_address(arguments.to);
  if (!to) return report(arguments.to, to.error(), exit_usage);
  PutOptions options;
  if (!put_options(arguments, options)) return exit_usage;
  if (!arguments.recursive && (to->key.empty() || to->key.ends_with('/'))) {
    if (arguments.from == "-") return report(arguments.to, "standard input has no name: give the key", exit_usage);
    to->key += fs::path(arguments.from).filename().string();
  }
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  if (arguments.recursive) return put_folder(*client, arguments, *to, options);
  RunFailures failures;
  return put_one(*client, arguments, arguments.from, *to, options, failures).code;
}

namespace {

constexpr size_t append_piece_bytes = 16 * MiB;  // each is one change

// Reads a stream until it ends or the piece is full. Negative: a read error.
ssize_t fill_piece(std::istream& from, std::span<std::byte> piece) {
  from.read(reinterpret_cast<char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
  return from.bad() ? -1 : static_cast<ssize_t>(from.gcount());
}

// The first piece is appended at the current end; the others must follow it directly.
int append_stream(const Client& client, std::istream& from, const CopyArguments& arguments, const S3Address& to) {
  auto buffer = client.allocate(append_piece_bytes);
  if (!buffer) return report(arguments.from, buffer.error());
  PutOptions options;
  options.append_at = append_at_end;
  for (;;) {
    const ssize_t filled = fill_piece(from, buffer->bytes());
    if (filled < 0) return report(arguments.from, "cannot be read", exit_not_found);
    if (filled == 0) return exit_ok;
    const auto put = client.put(to.bucket, to.key, buffer->slice(0, static_cast<size_t>(filled)), options);
    if (!put) return report(to.text(), put.error());
    options.append_at = put->object_size;
  }
}

}  // namespace

int run_append(const CopyArguments& arguments) {
  const auto to = parse_s3_address(arguments.to);
  if (!to) return report(arguments.to, to.error(), exit_usage);
  if (to->key.empty()) return report(arguments.to, "the key is missing", exit_usage);
  std::ifstream file;
  if (arguments.from != "-") {
    file.open(arguments.from, std::ios::binary);
    if (!file) return report(arguments.from, "cannot be read", exit_not_found);
  }
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  return append_stream(*client, arguments.from == "-" ? std::cin : file, arguments, *to);
}

int run_mv(const CopyArguments& arguments) {
  const auto from = parse_s3_address(arguments.from), to = parse_s3_address(arguments.to);
  if (!from) return report(arguments.from, from.error(), exit_usage);
  if (!to) return report(arguments.to, to.error(), exit_usage);
  if (from->key.empty() || to->key.empty()) return report(arguments.from, "mv takes one object", exit_usage);
  if (from->bucket != to->bucket) {
    return report(arguments.to, "an object can be renamed only in its own bucket; otherwise use cp and rm", exit_usage);
  }
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  const auto renamed = client->rename(from->bucket, from->key, to->key);
  return renamed ? exit_ok : report(from->text(), renamed.error());
}

int run_get(const CopyArguments& arguments) {
  if (!arguments.many.empty()) return run_get_many(arguments);
  auto from = parse_s3_address(arguments.from);
  if (!from) return report(arguments.from, from.error(), exit_usage);
  if (from->key.empty() && !arguments.recursive) {
    return report(arguments.from, "the key is missing (or use --recursive)", exit_usage);
  }
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  if (arguments.recursive) return get_below(*client, arguments, *from);

  const std::string name = fs::path(from->key).filename().string();
  std::string file = arguments.to.empty() ? "." : arguments.to;
  PathFrom path_from = PathFrom::caller;
  std::error_code ec;
  if (file != "-" && (file.ends_with('/') || fs::is_directory(file, ec))) {
    const auto path = local_path(file, name);
    if (!path) return report(arguments.from, "the key's last part is not a file name: give FILE", exit_usage);
    file = path->string();
    path_from = PathFrom::key;
  }
  RunFailures failures;
  return get_one(*client, arguments, *from, file, path_from, failures).code;
}

}  // namespace verbena::cli
