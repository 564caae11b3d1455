// S3's operations over HTTP: signed requests, checked replies. One attempt each; retries and the choice of a door are
// the client's. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "auth/auth.h"
#include "client/http/bucket_sessions.h"
#include "client/http/object_headers.h"
#include "client/http/s3_xml.h"
#include "client/outcome.h"
#include "net/http_client.h"

namespace verbena::client {

struct S3Call {
  std::string method = "GET";
  std::string bucket = {}, key = {};                            // empty bucket: the service; empty key: the bucket
  std::vector<std::pair<std::string, std::string>> query = {};  // decoded
  net::HttpHeaders headers = {};
  Bytes body = {};
  bool unsigned_payload = false;          // UNSIGNED-PAYLOAD, overriding the options
  std::optional<MutableBytes> into = {};  // for the body of a 2xx
  bool status_suffices = false;           // see net::HttpRequest::status_suffices
  bool replayable = true;                 // see net::HttpRequest::replayable
  std::stop_token stop = {};
  net::Meanwhile* meanwhile = nullptr;                   // see net::HttpRequest::meanwhile
  std::optional<std::chrono::milliseconds> within = {};  // a shorter limit than the request's own
};

// A part (1 to 10,000) of an upload, and a checksum of its bytes.
struct UploadPart {
  std::string bucket, key, upload_id;
  int number = 0;
  Bytes from = {};
  KnownChecksum checksum = {};
  bool md5_etag = false;
  std::stop_token stop = {};
};
S3Call part_call(const UploadPart& part);  // without body and checksum

PutReply put_reply(const net::HttpReply& reply);  // without its transfer

struct S3Options {
  auth::Credentials credentials;
  std::string region = "us-east-1";
  bool sign_payload = true;
  bool verify_checksums = true;
};

class S3Http {
 public:
  S3Http(net::HttpClient& http, S3Options options) : http_(http), options_(std::move(options)) {}

  // The reply when its status is 2xx, else the error that it stands for. In directory buckets, requests that a session
  // may make are signed with one, opened on demand.
  Outcome<net::HttpReply> call(const S3Call& call);

  Outcome<GetReply> get(const std::string& bucket, const std::string& key, MutableBytes into,
                        const GetOptions& options);
  Outcome<PutReply> put(const std::string& bucket, const std::string& key, Bytes from, const PutOptions& options);
  Outcome<ObjectInfo> head(const std::string& bucket, const std::string& key, const HeadOptions& options);
  Outcome<> remove(const std::string& bucket, const std::string& key, const RemoveOptions& options);
  Outcome<> rename(const std::string& bucket, const std::string& from, const std::string& to,
                   const RenameOptions& options);
  Outcome<ListPage> list(const std::string& bucket, const ListOptions& options);
  Outcome<> make_bucket(const std::string& bucket, BucketDurability durability, BucketEtags etags = BucketEtags::md5);
  Outcome<> remove_bucket(const std::string& bucket);
  Outcome<> set_bound(const std::string& bucket, const BucketBound& bound);
  Outcome<std::optional<BucketBound>> bound(const std::string& bucket);  // nullopt: none
  Outcome<> remove_bound(const std::string& bucket);
  Outcome<std::vector<BucketInfo>> buckets();

  Outcome<std::string> create_upload(const std::string& bucket, const std::string& key, const PutOptions& options);
  Outcome<PutReply> put_part(const UploadPart& part);
  Outcome<PutReply> complete_upload(const std::string& bucket, const std::string& key, const std::string& upload_id,
                                    const std::vector<CompletedPart>& parts, uint32_t whole_crc32c,
                                    const PutOptions& options);
  Outcome<> abort_upload(const std::string& bucket, const std::string& key, const std::string& upload_id,
                         std::optional<std::chrono::milliseconds> within);

  net::HttpClient& http() { return http_; }
  const S3Options& options() const { return options_; }
  std::string provider() const { return http_.options().tls ? "https" : "http"; }

 private:
  Outcome<net::HttpReply> call_signed(const S3Call& call, const auth::Credentials* session);
  Outcome<auth::Credentials> open_session(const std::string& bucket, const std::stop_token& stop);

  net::HttpClient& http_;
  BucketSessions sessions_;
  S3Options options_;
};

}  // namespace verbena::client
