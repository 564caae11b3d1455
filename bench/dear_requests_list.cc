// The most expensive request of each kind: as large as the limits allow, with the most expensive content.
#include <fmt/core.h>

#include "auth/canonical_request.h"
#include "auth/chunk_signature.h"
#include "auth/signing_key.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/hex.h"
#include "base/text.h"
#include "dear_requests.h"
#include "give_up.h"

namespace verbena::bench {
namespace {

std::string many(size_t count, const std::function<std::string(size_t)>& one) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += one(i);
  return text;
}

std::string md5_of(std::string_view body) {
  Digest digest(Algorithm::md5);
  digest.update(as_bytes(body));
  return digest.finish_base64();
}

Cost put(House& house, const std::string& path, std::string body, const std::string& query = {}, Pairs headers = {}) {
  if (!query.empty()) headers.emplace_back("content-md5", md5_of(body));
  return house.send(
      {.method = "PUT", .path = path, .query = query, .body = std::move(body), .headers = std::move(headers)});
}

void must_be(const Cost& cost, int status, const char* what) {
  if (cost.status == status) return;
  give_up(fmt::format("{}: {} {}", what, cost.status, cost.answer.substr(0, 1500)));
}

void bucket(House& house, const std::string& name) {
  const Cost made = put(house, "/" + name, "");
  if (made.status != 200 && made.status != 409) must_be(made, 200, "bucket");
}

// A policy of the maximum size whose patterns nearly match everywhere but never to the end.
std::string costly_policy(const std::string& name) {
  std::string condition;
  for (int i = 0; condition.size() < 8'000; ++i) {
    condition += fmt::format("{}\"*a*a*a*a*a*a*a*a*a*a*a*b{}\"", i == 0 ? "" : ",", i);
  }
  std::string resources;
  for (int i = 0; resources.size() < 11'000; ++i) {
    resources +=
        fmt::format("{}\"arn:aws:s3:::{}/*\\u0001*\\u0001*\\u0001*\\u0001*\\u0001*b{}\"", i == 0 ? "" : ",", name, i);
  }
  return fmt::format(R"({{"Statement":[{{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":[{}]}},)"
                     R"({{"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::{}/*",)"
                     R"("Condition":{{"StringLike":{{"aws:UserAgent":[{}]}}}}}}]}})",
                     resources, name, condition);
}

std::string long_key(size_t i) { return std::string(1010, '\x01') + fmt::format("{:04}", i); }
std::string escaped_key(size_t i) {
  return many(1010, [](size_t) { return std::string("%01"); }) + fmt::format("{:04}", i);
}

std::string delete_body(size_t keys) {
  return "<Delete>" +
         many(keys,
              [](size_t i) {
                return "<Object><Key>" + std::string(1000, 'k') + fmt::format("{:04}", i) + "</Key></Object>";
              }) +
         "</Delete>";
}

Cost delete_objects(House& house, const std::string& name, std::string body, Pairs headers = {}) {
  headers.emplace_back("content-md5", md5_of(body));
  return house.send({.method = "POST",
                     .path = "/" + name,
                     .query = "delete=",
                     .body = std::move(body),
                     .headers = std::move(headers)});
}

void logged_bucket(House& house) {
  bucket(house, "logged");
  bucket(house, "logs");
  must_be(put(house, "/logged",
              "<BucketLoggingStatus><LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>p/</TargetPrefix>"
              "</LoggingEnabled></BucketLoggingStatus>",
              "logging="),
          200, "logging");
}

void policied_bucket(House& house) {
  static bool there = false;
  if (std::exchange(there, true)) return;
  bucket(house, "policied");
  must_be(put(house, "/policied/key", "x"), 200, "key");
  must_be(put(house, "/policied", costly_policy("policied"), "policy="), 204, "policy");
}

std::string upload(House& house, const std::string& path) {
  const Cost begun = house.send({.method = "POST", .path = path, .query = "uploads="});
  must_be(begun, 200, "upload");
  const size_t at = begun.answer.find("<UploadId>") + 10;
  return begun.answer.substr(at, begun.answer.find('<', at) - at);
}

std::string parts_upload, parts_document;
void ten_thousand_parts(House& house) {
  if (!parts_document.empty()) return;
  bucket(house, "parts");
  parts_upload = upload(house, "/parts/key");
  parts_document = "<CompleteMultipartUpload>";
  for (int i = 1; i <= 10'000; ++i) {
    const Cost made = house.send({.method = "PUT",
                                  .path = "/parts/key",
                                  .query = fmt::format("partNumber={}&uploadId={}", i, parts_upload),
                                  .body = "x"});
    must_be(made, 200, "part");
    const size_t at = made.answer.find("\"", lower(made.answer).find("etag: "));
    const std::string etag = made.answer.substr(at, made.answer.find('"', at + 1) - at + 1);
    parts_document += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i, etag);
  }
  parts_document += "</CompleteMultipartUpload>";
}

void thousand_keys(House& house) {
  static bool there = false;
  if (std::exchange(there, true)) return;
  bucket(house, "listed");
  for (size_t i = 0; i < 1000; ++i) must_be(put(house, "/listed/" + escaped_key(i), "x"), 200, "key");
}

// Chunks of one byte, each signed.
std::string signed_chunks(House& house, size_t bytes) {
  Pairs extra{{"content-encoding", "aws-chunked"}, {"x-amz-decoded-content-length", std::to_string(bytes)}};
  std::string head = house.sign(
      {.method = "PUT", .path = "/chunked/key", .payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", .headers = extra});
  const auto after = [&](std::string_view name) {
    const size_t at = head.find(name) + name.size();
    return head.substr(at, head.find_first_of(",\r", at) - at);
  };
  const std::string date = after("x-amz-date: "), seed = after("Signature=");
  const std::string day = date.substr(0, 8), scope = day + "/us-east-1/s3/aws4_request";
  std::string previous = seed, body;
  const auth::SigningKey key = auth::make_signing_key(house.keys().secret_key, day, "us-east-1", "s3");
  const auth::ChunkContext context{date, scope, key.bytes};
  const auto add = [&](std::string_view data) {
    const std::string hash = to_hex(as_bytes(sha256(as_bytes(data))));
    previous = auth::chunk_signature(context, previous, hash);
    body += fmt::format("{:x};chunk-signature={}\r\n{}\r\n", data.size(), previous, data);
  };
  for (size_t i = 0; i < bytes; ++i) add("x");
  add("");
  const size_t length = head.find("content-length: 0");
  head.replace(length, 17, fmt::format("content-length: {}", body.size()));
  return head + body;
}

Cost put_large(House& house) {
  std::string body(32 * MiB, 'x');
  const std::string md5 = md5_of(body);
  return house.send({.method = "PUT",
                     .path = "/plain/large",
                     .body = std::move(body),
                     .headers = {{"content-md5", md5}, {"x-amz-meta-a", "b"}}});
}
void large_object(House& house) {
  static bool there = false;
  if (std::exchange(there, true)) return;
  bucket(house, "plain");
  must_be(put_large(house), 200, "large object");
}

// A browser's form with the maximum number of fields and conditions, signed by version 4.
Cost form(House& house) {
  const std::string credential = house.keys().access_key + "/20260102/us-east-1/s3/aws4_request";
  Pairs fields{{"key", "form"},
               {"bucket", "plain"},
               {"x-amz-algorithm", "AWS4-HMAC-SHA256"},
               {"x-amz-credential", credential},
               {"x-amz-date", "20260102T000000Z"}};
  for (int i = 0; i < 80; ++i) fields.emplace_back(fmt::format("x-ignore-{}", i), "v");
  std::string conditions;
  for (const auto& [name, value] : fields) conditions += fmt::format(R"({{"{}":"{}"}},)", name, value);
  for (int i = 0; i < 160; ++i) conditions += fmt::format(R"(["starts-with","$x-ignore-{}","v"],)", i % 80);
  conditions.pop_back();
  const std::string policy =
      to_base64(as_bytes(R"({"expiration":"2099-01-01T00:00:00.000Z","conditions":[)" + conditions + "]}"));
  const auto key = auth::signing_key(house.keys().secret_key, "20260102", "us-east-1", "s3");
  fields.emplace_back("policy", policy);
  fields.emplace_back("x-amz-signature", to_hex(as_bytes(hmac_sha256(Bytes(key), as_bytes(policy)))));
  std::string body;
  for (const auto& [name, value] : fields) {
    body += fmt::format("--b\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n", name, value);
  }
  body += "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--\r\n";
  return house.ask(
      fmt::format("POST /plain HTTP/1.1\r\nhost: h\r\ncontent-type: multipart/form-data; boundary=b\r\n"
                  "content-length: {}\r\n\r\n{}",
                  body.size(), body));
}

// Signed by version 2, with the maximum of metadata.
Cost version2(House& house) {
  const std::string date = format_http_date(system_clock().now_s());
  std::string headers, text = "PUT\n\n\n" + date + "\n";
  for (int i = 0; i < 200; ++i) {
    headers += fmt::format("x-amz-meta-{:03}: vvvvvvv\r\n", i);
    text += fmt::format("x-amz-meta-{:03}:vvvvvvv\n", i);
  }
  text += "/plain/two";
  const std::string mac = to_base64(as_bytes(hmac_sha1(as_bytes(house.keys().secret_key), as_bytes(text))));
  return house.ask(
      fmt::format("PUT /plain/two HTTP/1.1\r\nhost: 127.0.0.1\r\ndate: {}\r\nauthorization: AWS {}:{}\r\n"
                  "{}content-length: 1\r\n\r\nx",
                  date, house.keys().access_key, mac, headers));
}

std::string rules(size_t count) {
  return "<LifecycleConfiguration>" +
         many(count,
              [](size_t i) {
                return fmt::format(
                    "<Rule><Filter><Prefix>{}</Prefix></Filter><Status>Enabled</Status><Expiration><Days>9"
                    "</Days></Expiration></Rule>",
                    i);
              }) +
         "</LifecycleConfiguration>";
}

}  // namespace

std::vector<Dear> dearest() {
  std::vector<Dear> all;
  const auto add = [&](std::string name, std::string what, std::function<void(House&)> prepare,
                       std::function<Cost(House&)> serve, int status = 200) {
    all.push_back({std::move(name), std::move(what), status, std::move(prepare), std::move(serve)});
  };
  const auto plain = [](House& house) {
    bucket(house, "plain");
    must_be(put(house, "/plain/key", "x"), 200, "key");
  };
  add("get", "GET of one byte, for comparison", plain, [](House& house) { return house.send({.path = "/plain/key"}); });
  add("headers", "GET with 240 headers of 240 bytes, all signed", plain, [](House& house) {
    Ask ask{.path = "/plain/key"};
    for (int i = 0; i < 240; ++i) ask.headers.emplace_back(fmt::format("x-ignored-{:05}", i), std::string(220, 'v'));
    return house.send(ask);
  });
  add("query", "GET with 250 query arguments of 60 bytes, all signed", plain, [](House& house) {
    return house.send({.path = "/plain/key", .query = many(250, [](size_t i) {
                                               return fmt::format("{}a{:04}={}", i == 0 ? "" : "&", i,
                                                                  std::string(50, 'v'));
                                             })});
  });
  add("if_match", "GET with 60 KiB of If-None-Match", plain, [](House& house) {
    return house.send({.path = "/plain/key",
                       .headers = {{"if-none-match", many(15'000, [](size_t) { return std::string("\"a\","); })}}});
  });
  add(
      "xml_markup", "DeleteObjects of 4 MiB of markup", plain,
      [](House& house) {
        return delete_objects(house, "plain",
                              "<Delete>" + many(99'000, [](size_t) { return std::string("<Object></Object>"); }) +
                                  std::string(2 * MiB, ' ') + "</Delete>");
      },
      400);
  add("xml_entities", "DeleteObjects of one key of 4 MiB of entities", plain, [](House& house) {
    return delete_objects(house, "plain", "<Delete><Object><Key>" + many(800'000, [](size_t) {
                                            return std::string("&amp;");
                                          }) + "</Key></Object></Delete>");
  });
  add("delete_objects", "DeleteObjects of 1,000 keys of 1,004 bytes", plain,
      [](House& house) { return delete_objects(house, "plain", delete_body(1000)); });
  add("delete_logged", "the same in a bucket that logs; User-Agent and Referer of 4,090 quotation marks", logged_bucket,
      [](House& house) {
        return delete_objects(house, "logged", delete_body(1000),
                              {{"user-agent", std::string(4090, '"')}, {"referer", std::string(4090, '"')}});
      });
  add("delete_policied", "the same under a policy of 20 KiB of wildcards", policied_bucket,
      [](House& house) { return delete_objects(house, "policied", delete_body(1000)); });
  add(
      "policy_put", "PutBucketPolicy of 20 KiB of wildcards", policied_bucket,
      [](House& house) { return put(house, "/policied", costly_policy("policied"), "policy="); }, 204);
  add(
      "policy_get", "GET under it, User-Agent of 30 KiB", policied_bucket,
      [](House& house) {
        return house.send({.path = "/policied/key", .headers = {{"user-agent", std::string(30'000, 'a')}}});
      },
      403);
  const auto ruled = [](House& house) {
    bucket(house, "ruled");
    must_be(put(house, "/ruled/key", "x"), 200, "key");
    must_be(put(house, "/ruled", rules(1000), "lifecycle="), 200, "lifecycle");
  };
  add("lifecycle_put", "PutBucketLifecycle of 1,000 rules", ruled,
      [](House& house) { return put(house, "/ruled", rules(1000), "lifecycle="); });
  add("lifecycle_get", "GET in that bucket", ruled, [](House& house) { return house.send({.path = "/ruled/key"}); });
  const auto with_cors = [](House& house, const std::string& name, const std::string& rules) {
    bucket(house, name);
    must_be(put(house, "/" + name, "<CORSConfiguration>" + rules + "</CORSConfiguration>", "cors="), 200, "cors");
  };
  add(
      "cors", "preflight of 30 KiB of headers under 100 rules",
      [with_cors](House& house) {
        with_cors(house, "shared", many(100, [](size_t i) {
                    return fmt::format(
                        "<CORSRule><AllowedOrigin>http://*{}</AllowedOrigin><AllowedMethod>GET"
                        "</AllowedMethod><AllowedHeader>x*z</AllowedHeader></CORSRule>",
                        i);
                  }));
      },
      [](House& house) {
        std::string names = many(10'000, [](size_t) { return std::string("xz,"); });
        return house.ask("OPTIONS /shared/key HTTP/1.1\r\nhost: h\r\norigin: http://" + std::string(8000, 'a') +
                         "99\r\naccess-control-request-method: GET\r\naccess-control-request-headers: " + names +
                         "\r\n\r\n");
      },
      403);
  add(
      "cors_names", "preflight of 100 headers under a rule of 1,700 patterns",
      [with_cors](House& house) {
        with_cors(house, "patterned",
                  "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>" +
                      many(1'700, [](size_t i) { return fmt::format("<AllowedHeader>b{}*</AllowedHeader>", i); }) +
                      "</CORSRule>");
      },
      [](House& house) {
        return house.ask(
            "OPTIONS /patterned/key HTTP/1.1\r\nhost: h\r\norigin: http://a\r\naccess-control-request-method: GET\r\n"
            "access-control-request-headers: " +
            many(99, [](size_t i) { return fmt::format("b1699{},", i); }) + "other\r\n\r\n");
      },
      403);
  add("tagging", "PutObjectTagging of 10 tags of the longest names", plain, [](House& house) {
    return put(house, "/plain/key",
               "<Tagging><TagSet>" +
                   many(10,
                        [](size_t i) {
                          return "<Tag><Key>" + std::string(127, 'k') + std::to_string(i) + "</Key><Value>" +
                                 std::string(256, 'v') + "</Value></Tag>";
                        }) +
                   "</TagSet></Tagging>",
               "tagging=");
  });
  add("form", "POST of a form of 87 fields under 245 conditions", plain, form, 204);
  add("version2", "PUT signed by version 2, with 200 headers of metadata", plain, version2);
  add(
      "chunks", "PUT of 256 KiB in signed chunks of one byte", [](House& house) { bucket(house, "chunked"); },
      [](House& house) { return house.ask(signed_chunks(house, 256 * KiB)); });
  add("put_large", "PUT of 32 MiB with Content-MD5 and a signed SHA-256", large_object, put_large);
  add("get_large", "GET of it", large_object, [](House& house) { return house.send({.path = "/plain/large"}); });
  add("copy_large", "CopyObject of it", large_object, [](House& house) {
    return house.send({.method = "PUT", .path = "/plain/copy", .headers = {{"x-amz-copy-source", "/plain/large"}}});
  });
  add("list", "ListObjectsV2 of 1,000 keys of 1,014 control characters", thousand_keys,
      [](House& house) { return house.send({.path = "/listed", .query = "list-type=2"}); });
  add("list_url", "the same with encoding-type=url", thousand_keys,
      [](House& house) { return house.send({.path = "/listed", .query = "encoding-type=url&list-type=2"}); });
  add("list_delimited", "the same with a delimiter", thousand_keys,
      [](House& house) { return house.send({.path = "/listed", .query = "delimiter=0&list-type=2"}); });
  add("list_versions", "ListObjectVersions of them", thousand_keys,
      [](House& house) { return house.send({.path = "/listed", .query = "versions="}); });
  add(
      "complete", "CompleteMultipartUpload of 10,000 parts (wrong at the end)", ten_thousand_parts,
      [](House& house) {
        std::string body = parts_document;
        body.replace(body.rfind("<ETag>"), 8, "<ETag>\"z");
        return house.send({.method = "POST", .path = "/parts/key", .query = "uploadId=" + parts_upload, .body = body});
      },
      400);
  add("list_parts", "ListParts of 1,000 of them", ten_thousand_parts,
      [](House& house) { return house.send({.path = "/parts/key", .query = "uploadId=" + parts_upload}); });
  add("head_many", "native HEAD_MANY of as many keys of 1,000 bytes as a message has room for", policied_bucket,
      [](House& house) { return house.batch("HEAD_MANY", 1000); });
  add("get_many", "native GET_MANY of them", policied_bucket,
      [](House& house) { return house.batch("GET_MANY", 1000); });
  add("put_many", "native PUT_MANY of them", policied_bucket,
      [](House& house) { return house.batch("PUT_MANY", 1000); });
  add("delete_many", "native DELETE_MANY of them", policied_bucket,
      [](House& house) { return house.batch("DELETE_MANY", 1000); });
  add("native_list", "native LIST of 1,000 keys of 1,014 bytes", thousand_keys,
      [](House& house) { return house.native_list("listed"); });
  return all;
}

}  // namespace verbena::bench
