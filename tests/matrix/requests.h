// A server, a user of it called bob, and requests that no client library would send.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "auth/auth.h"
#include "base/checksum.h"
#include "base/hex.h"
#include "net/http_client.h"
#include "world.h"

namespace verbena::matrix {

using Json = nlohmann::json;

class Requests {
 protected:
  void start(Config config) {
    world_ = std::make_unique<World>(std::move(config));
    const std::string url = world_->server.http();
    http_ = *net::HttpClient::create(
        {.host = test_address(), .port = static_cast<uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)))});
    make_bob();
  }
  void end() { world_.reset(); }

  // A user who may do everything.
  void make_bob() {
    call("iam", "Action=CreateUser&Version=2010-05-08&UserName=bob");
    call("iam",
         "Action=PutUserPolicy&Version=2010-05-08&UserName=bob&PolicyName=all&PolicyDocument=" +
             auth::uri_encode(
                 R"({"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]})", false));
    const std::string answer = call("iam", "Action=CreateAccessKey&Version=2010-05-08&UserName=bob");
    const auto between = [&](const std::string& name) {
      const size_t from = answer.find("<" + name + ">") + name.size() + 2;
      return answer.substr(from, answer.find("</" + name + ">") - from);
    };
    bob_ = {between("AccessKeyId"), between("SecretAccessKey"), ""};
  }

  std::string call(const char* service, const std::string& body) {
    net::HttpHeaders headers{{"host", http_->host_header()},
                             {"content-type", "application/x-www-form-urlencoded; charset=utf-8"}};
    auth::sign(root_, "us-east-1", service, system_clock(), "POST", "/", "", to_hex(as_bytes(sha256(as_bytes(body)))),
               headers);
    const auto reply = http_->request({.method = "POST", .target = "/", .headers = headers, .body = as_bytes(body)});
    EXPECT_TRUE(reply && reply->status == 200) << (reply ? reply->body : "no answer");
    return reply ? reply->body : std::string();
  }

  // A signed request, as no client library would send it. Its status.
  int send(const auth::Credentials& who, const std::string& method, const std::string& target,
           std::string_view body = {}, net::HttpHeaders headers = {}) {
    headers.emplace_back("host", http_->host_header());
    const size_t mark = std::min(target.find('?'), target.size());
    const std::string query = mark == target.size() ? "" : target.substr(mark + 1);
    auth::sign(who, "us-east-1", "s3", system_clock(), method, target.substr(0, mark), query,
               to_hex(as_bytes(sha256(as_bytes(body)))), headers);
    const auto reply = http_->request({.method = method, .target = target, .headers = headers, .body = as_bytes(body)});
    EXPECT_TRUE(reply) << target;
    if (reply && reply->status >= 400) last_body_ = reply->body;
    return reply ? reply->status : 0;
  }

  // Signed by version 4 in a policy, as a browser sends it.
  int post_form(const std::string& bucket, const std::string& key, std::string_view bytes) {
    const std::string date = "20260102";
    const Json policy{{"expiration", "2099-01-01T00:00:00.000Z"},
                      {"conditions",
                       {{{"bucket", bucket}},
                        {"starts-with", "$key", ""},
                        {{"x-amz-algorithm", "AWS4-HMAC-SHA256"}},
                        {{"x-amz-credential", bob_.access_key + "/" + date + "/us-east-1/s3/aws4_request"}},
                        {{"x-amz-date", date + "T000000Z"}}}}};
    const std::string text = to_base64(as_bytes(policy.dump()));
    const auto signing = auth::signing_key(bob_.secret_key, date, "us-east-1", "s3");
    const net::HttpHeaders fields{{"key", key},
                                  {"bucket", bucket},
                                  {"policy", text},
                                  {"x-amz-algorithm", "AWS4-HMAC-SHA256"},
                                  {"x-amz-credential", bob_.access_key + "/" + date + "/us-east-1/s3/aws4_request"},
                                  {"x-amz-date", date + "T000000Z"},
                                  {"x-amz-signature", to_hex(as_bytes(hmac_sha256(Bytes(signing), as_bytes(text))))}};
    std::string body;
    for (const auto& [name, value] : fields) {
      body += fmt::format("--edge\r\nContent-Disposition: form-data; name=\"{}\"\r\n\r\n{}\r\n", name, value);
    }
    body += "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
    body.append(bytes).append("\r\n--edge--\r\n");
    const auto reply = http_->request(
        {.method = "POST",
         .target = "/" + bucket,
         .headers = {{"host", http_->host_header()}, {"content-type", "multipart/form-data; boundary=edge"}},
         .body = as_bytes(body)});
    EXPECT_TRUE(reply);
    if (reply && reply->status >= 400) last_body_ = reply->body;
    return reply ? reply->status : 0;
  }

  Client client(const Way& way) {
    ClientOptions options;
    options.endpoint = world_->server.http();
    options.native_endpoint = world_->server.native();
    options.access_key = bob_.access_key;
    options.secret_key = bob_.secret_key;
    options.via = way.via;
    options.provider = way.provider;
    options.token_size_min = 0;
    return *Client::connect(options);
  }

  std::unique_ptr<World> world_;
  std::unique_ptr<net::HttpClient> http_;
  const auth::Credentials root_{server::TestServer::access_key, server::TestServer::secret_key, ""};
  auth::Credentials bob_;
  std::string last_body_;
};

}  // namespace verbena::matrix
