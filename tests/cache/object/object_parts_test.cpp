// SPDX-License-Identifier: Apache-2.0
// The parts of the client of object stores that need no server.
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "headrace/cache/source/object/endpoint.h"
#include "headrace/cache/source/object/flat_json.h"
#include "headrace/cache/source/object/key_ranges.h"
#include "headrace/cache/source/object/latencies.h"
#include "headrace/cache/source/object/object_verdict.h"
#include "headrace/cache/source/object/signature.h"
#include "headrace/cache/source/object/uri.h"
#include "headrace/cache/source/object/xml.h"

namespace object_parts_test {
namespace {

using namespace headrace::cache;  // NOLINT(google-build-using-namespace): most of what the room has
using headrace::io::ErrorCode;
using headrace::io::Secret;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

std::string signature_in(const std::string& authorization) {
  return authorization.substr(authorization.find("Signature=") + 10);
}

// The examples of "Signature Calculations for the Authorization Header", Amazon S3 API reference.
struct Examples {
  Signer signer{AccessKeys{.id = "AKIAIOSFODNN7EXAMPLE", .secret = Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")},
                "us-east-1", "s3"};
  std::chrono::sys_seconds day = std::chrono::sys_days(std::chrono::year(2013) / 5 / 24);
  std::string_view host = "examplebucket.s3.amazonaws.com";
};

}  // namespace

TEST_CASE("signatures are those of Amazon's examples") {
  Examples examples;
  RequestToSign request{.path = "/test.txt",
                        .headers = {{"host", examples.host},
                                    {"range", "bytes=0-9"},
                                    {"x-amz-content-sha256", kEmptyBodyHash},
                                    {"x-amz-date", "20130524T000000Z"}}};
  CHECK(examples.signer.authorization(request, examples.day) ==
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  request = {
      .path = "/",
      .query = "lifecycle=",
      .headers = {
          {"host", examples.host}, {"x-amz-content-sha256", kEmptyBodyHash}, {"x-amz-date", "20130524T000000Z"}}};
  CHECK(signature_in(examples.signer.authorization(request, examples.day)) ==
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  const std::string query = make_query({{"prefix", "J"}, {"max-keys", "2"}});
  request.query = query;
  CHECK(signature_in(examples.signer.authorization(request, examples.day)) ==
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST_CASE("signatures are those of the test suite for version 4") {
  // get-vanilla of aws-sig-v4-test-suite.
  Signer signer({.id = "AKIDEXAMPLE", .secret = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")}, "us-east-1",
                "service");
  const std::chrono::sys_seconds time = std::chrono::sys_days(std::chrono::year(2015) / 8 / 30) + seconds(45360);
  const RequestToSign request{.path = "/",
                              .headers = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}}};
  CHECK(amz_date(time) == "20150830T123600Z");
  CHECK(signature_in(signer.authorization(request, time)) ==
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
  // The key of another day is another one.
  CHECK(signature_in(signer.authorization(request, time + std::chrono::days(1))) !=
        signature_in(signer.authorization(request, time)));
}

TEST_CASE("paths and queries are encoded as they are signed") {
  CHECK(encode_path("a b/c+d=e%~") == "a%20b/c%2Bd%3De%25~");
  CHECK(encode_path("//\xc3\xa4") == "//%C3%A4");
  CHECK(make_query({{"prefix", "a/b"}, {"list-type", "2"}}) == "list-type=2&prefix=a%2Fb");
  CHECK(decode_key("a+b%2Bc%C3%A4%0a") == "a b+c\xc3\xa4\n");
  CHECK_FALSE(decode_key("a%2").has_value());
  CHECK_FALSE(decode_key("a%zz").has_value());
}

TEST_CASE("a page of a listing is read") {
  const auto page = parse_list_page(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1</"
      "NextContinuationToken>"
      "<Contents><Key>a+b%2B</Key><LastModified>2013-05-24T00:00:01.500Z</LastModified><ETag>&quot;12ab&quot;</ETag>"
      "<Size>7</Size><Owner><ID>x</ID></Owner></Contents><CommonPrefixes><Prefix>c%2F</Prefix></CommonPrefixes>"
      "</ListBucketResult>");
  REQUIRE(page.has_value());
  REQUIRE(page->objects.size() == 1);
  CHECK(page->objects[0].key == "a b+");
  CHECK(page->objects[0].etag == "12ab");
  CHECK(page->objects[0].size_bytes == 7);
  CHECK(page->objects[0].mtime_ns == 1'369'353'601'500'000'000);
  CHECK(page->folders == std::vector<std::string>{"c/"});
  CHECK(page->next == "t&1");
}

TEST_CASE("what is no listing is refused") {
  const std::string bomb =
      "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>"
      "<ListBucketResult><Contents><Key>&b;</Key></Contents></ListBucketResult>";
  std::string deep = "<ListBucketResult>";
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  for (const std::string& body :
       {bomb, deep, std::string(), std::string("<html>"), std::string("<html></html>"),
        std::string("<ListBucketResult><Contents><Key>a</Key>"),
        std::string("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
        std::string("<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>"),
        std::string("<ListBucketResult><Contents><Key>a</Key><Size>18446744073709551615</Size></Contents>"
                    "</ListBucketResult>"),
        std::string("<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%</Key></Contents>"
                    "</ListBucketResult>")}) {
    CHECK_MESSAGE(!parse_list_page(body).has_value(), body.substr(0, 100));
  }
  CHECK(parse_error("<Error><Code>NoSuchKey</Code></Error>").code == "NoSuchKey");
  CHECK(parse_error("<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>").code == "AccessDenied");
  CHECK(parse_error("Service Unavailable").code.empty());
}

TEST_CASE("times of the store are read, and nonsense is not") {
  CHECK(parse_iso_time("1970-01-01T00:00:01Z") == 1'000'000'000);
  for (const char* text : {"", "2013-13-24T00:00:00Z", "2013-05-24 00:00:00", "9999-01-01T00:00:00Z", "2013-05-24"}) {
    CHECK(parse_iso_time(text) == -1);
  }
}

TEST_CASE("the strings of a JSON object are read, and no half ones") {
  std::map<std::string, std::string> values;
  const auto read = [&](std::string_view text) {
    values.clear();
    return read_flat_json(text, [&](std::string_view name, std::string& value) { values.emplace(name, value); });
  };
  CHECK(read(R"( {"a": "b\"\\\/\n\u00e4", "n": -1.5, "o": {"a": ["x}", 1]}, "t": true, "z":"" } )"));
  CHECK(values == std::map<std::string, std::string>{{"a", "b\"\\/\n\xc3\xa4"}, {"z", ""}});
  CHECK(read("{}"));
  for (const char* text : {"", "[]", "{", R"({"a")", R"({"a":)", R"({"a":"b)", R"({"a":"\u12)", R"({"a":"b"} x)",
                           R"({"a":"\ud800"})", R"({"a":1]})", R"({"a":"b",})"}) {
    CHECK_MESSAGE(!read(text), text);
  }
}

TEST_CASE("a bucket's URL says where requests go") {
  auto options = parse_object_url("s3://my-bucket/train/set");
  REQUIRE(options.has_value());
  CHECK(options->prefix == "train/set/");
  CHECK(name_of(*options) == "s3://my-bucket/train/set/");
  options->region = "eu-west-1";
  CHECK(make_endpoint(*options)->url("/x", "") == "https://my-bucket.s3.eu-west-1.amazonaws.com/x");
  options->bucket = "my.bucket";  // no certificate covers the dot
  CHECK(make_endpoint(*options)->bucket_path == "/my.bucket/");
  options->endpoint = "http://127.0.0.1:9000/store";
  CHECK(make_endpoint(*options)->url(make_endpoint(*options)->bucket_path, "a=b") ==
        "http://127.0.0.1:9000/store/my.bucket/?a=b");
  CHECK(name_of(*options) == "s3://127.0.0.1:9000/my.bucket/train/set/");
  options->path_style = false;
  CHECK(make_endpoint(*options)->host == "my.bucket.127.0.0.1:9000");
  CHECK(make_endpoint(*parse_object_url("gs://b-1/x"))->host == "storage.googleapis.com");
  for (const char* url : {"s3://", "s3://a", "s3:///x", "s3://a b/x", "http://x/y", "/data"}) {
    CHECK_MESSAGE(!parse_object_url(url).has_value(), url);
  }
  for (const char* endpoint : {"127.0.0.1", "ftp://x", "http://", "http://a b", "http://a@b"}) {
    options->endpoint = endpoint;
    CHECK_MESSAGE(!make_endpoint(*options).has_value(), endpoint);
  }
}

TEST_CASE("a bucket is a part of the host's name at Amazon, if it may be one, and of the path elsewhere") {
  const auto url_of = [](const std::string& bucket, const std::string& endpoint, const std::string& region = "eu-1") {
    ObjectStoreOptions options;
    options.bucket = bucket;
    options.endpoint = endpoint;
    options.region = region;
    const Endpoint made = make_endpoint(options).value();
    return made.url(made.bucket_path, "");
  };
  CHECK(url_of("b-1", "") == "https://b-1.s3.eu-1.amazonaws.com/");
  CHECK(url_of("b-1", "", "cn-north-1") == "https://b-1.s3.cn-north-1.amazonaws.com.cn/");
  for (const std::string host : {"s3.eu-1.amazonaws.com", "s3.dualstack.eu-1.amazonaws.com",
                                 "s3-accelerate.amazonaws.com", "s3.cn-north-1.amazonaws.com.cn"}) {
    CHECK(url_of("b-1", "https://" + host) == "https://b-1." + host + "/");
    CHECK(url_of("b.1", "https://" + host) == "https://" + host + "/b.1/");
  }
  const std::string path = "https://s3.eu-1.amazonaws.com/";
  for (const std::string& bucket : {std::string("b.1"), std::string("b_1"), std::string("Bucket"), std::string("-b1"),
                                    std::string("b1-"), std::string(64, 'b')}) {
    CHECK(url_of(bucket, "") == path + bucket + "/");
  }
  CHECK(url_of(std::string(63, 'b'), "") == "https://" + std::string(63, 'b') + ".s3.eu-1.amazonaws.com/");
  for (const std::string url : {"https://minio.example", "http://10.0.0.1:9000", "https://amazonaws.com.example",
                                "https://storage.googleapis.com"}) {
    CHECK(url_of("b-1", url) == url + "/b-1/");
  }
  // As libcurl writes Host.
  CHECK(url_of("b-1", "https://minio.example:443") == "https://minio.example/b-1/");
  CHECK(url_of("b-1", "http://minio.example:80/x") == "http://minio.example/x/b-1/");
  CHECK(url_of("b-1", "http://minio.example:443") == "http://minio.example:443/b-1/");
}

TEST_CASE("each answer has its verdict") {
  const auto of = [](int status, const char* code = "", const char* region = "", const char* location = "") {
    return judge({.status = status, .code = code, .region = region, .location = location});
  };
  CHECK(of(200) == Verdict::kDone);
  CHECK(of(206) == Verdict::kDone);
  for (const int status : {408, 500, 530}) CHECK(of(status) == Verdict::kTryAgain);
  for (const int status : {502, 504}) CHECK(of(status, "InternalError") == Verdict::kTryAgain);
  for (const int status : {502, 504, 520}) CHECK(of(status) == Verdict::kSlowDown);  // a gateway's
  for (const int status : {501, 505}) CHECK(of(status) == Verdict::kFail);
  CHECK(judge({.status = 200, .is_broken = true}) == Verdict::kTryAgain);
  CHECK(judge({.is_broken = true, .never_connected = true}) == Verdict::kSlowDown);
  CHECK(judge({.is_broken = true, .is_untrusted = true}) == Verdict::kFail);
  CHECK(error_of({.is_broken = true, .is_untrusted = true}, "x").context.find("AWS_CA_BUNDLE") != std::string::npos);
  for (const int status : {429, 503, 509, 529}) CHECK(of(status) == Verdict::kSlowDown);
  CHECK(of(400, "ExpiredToken") == Verdict::kNewKeys);
  CHECK(of(403, "AccessDenied") == Verdict::kNewKeys);
  CHECK(of(403, "RequestTimeTooSkewed") == Verdict::kFail);  // without a date there is nothing to set
  CHECK(of(301, "PermanentRedirect", "eu-west-1") == Verdict::kOtherRegion);
  CHECK(of(400, "AuthorizationHeaderMalformed", "eu-west-1") == Verdict::kOtherRegion);
  CHECK(of(301) == Verdict::kFail);
  CHECK(of(307, "", "", "http://x/") == Verdict::kFollow);
  for (const int status : {400, 404, 412, 416}) CHECK(of(status) == Verdict::kFail);
  const auto advice = [](int status, const char* location) {
    return error_of({.status = status, .location = location}, "x").context;
  };
  for (const int status : {301, 302, 307}) {
    CHECK(advice(status, "https://there.example:9000/b/key?token=secret") ==
          fmt::format("x: HTTP {}: the store sends elsewhere; give --endpoint https://there.example:9000", status));
  }
  CHECK(advice(301, "").ends_with("give its --region"));
  CHECK(advice(302, "/login") == "x: HTTP 302");
  CHECK(advice(400, "").ends_with("check --endpoint, its scheme and port"));
  CHECK(error_of({.status = 404}, "x").code == ErrorCode::kNotFound);
  CHECK(error_of({.status = 412}, "x").code == ErrorCode::kStale);
  CHECK(error_of({.status = 416}, "x").code == ErrorCode::kStale);
  CHECK(error_of({.status = 403, .code = "InvalidAccessKeyId"}, "x").code == ErrorCode::kPermission);
  CHECK(error_of({.status = 404, .code = "NoSuchBucket"}, "x").context.find("no such bucket") != std::string::npos);
  const std::string denied =
      error_of({.status = 403, .code = "AccessDenied", .message = "no kms:Decrypt"}, "x").context;
  CHECK(denied.find("s3:GetObject") != std::string::npos);
  CHECK(denied.find("it says: no kms:Decrypt") != std::string::npos);
  const std::string nobody =
      error_of({.is_broken = true, .never_connected = true, .host = "s3.eu-wst-1.example", .trouble = "no such name"},
               "x")
          .context;
  CHECK(nobody == "x: s3.eu-wst-1.example: no such name; check --endpoint, --region and the proxy");
}

TEST_CASE("pauses grow up to a bound, and a store that names one gets it") {
  const ObjectTuning tuning;
  std::minstd_rand random(1);
  for (unsigned attempt = 1; attempt < 40; ++attempt) {
    milliseconds longest{0};
    for (int i = 0; i < 200; ++i) longest = std::max(longest, backoff(tuning, attempt, std::nullopt, random));
    const milliseconds bound =
        std::min<milliseconds>(milliseconds(10'000), milliseconds(50) * (1U << std::min(attempt - 1, 10U)));
    CHECK(longest <= bound);
    CHECK(longest > bound / 2);
  }
  CHECK(backoff(tuning, 1, seconds(3), random) >= seconds(3));
  CHECK(backoff(tuning, 1, seconds(9999), random) == tuning.give_up_after / tuning.attempts_max);
}

TEST_CASE("few requests get a second one, and none while many are late") {
  Latencies latencies(milliseconds(100));
  unsigned hedges = 0;
  for (int i = 0; i < 10'000; ++i) {
    latencies.note_sent();
    if (i % 20 == 0 && latencies.may_hedge(true, 1, 64)) ++hedges;
    latencies.note(milliseconds(i % 100 == 0 ? 500 : 60));
  }
  CHECK(latencies.late_after() == milliseconds(100));  // 90, but for the floor
  CHECK(hedges >= 290);
  CHECK(hedges <= 308);
  for (int i = 0; i < 10'000; ++i) latencies.note_sent();
  CHECK_FALSE(latencies.may_hedge(true, 8, 64));
  CHECK(latencies.may_hedge(true, 7, 64));
  // However few may be in flight: one that stalls is not a store that is slow.
  CHECK_FALSE(latencies.may_hedge(true, 2, 4));
  CHECK(latencies.may_hedge(true, 1, 4));
}

TEST_CASE("several of the first requests get a second one") {
  Latencies latencies(milliseconds(100));
  for (int i = 0; i < 8; ++i) CHECK(latencies.may_hedge(false, 1, 64));
  CHECK_FALSE(latencies.may_hedge(true, 1, 64));
}

TEST_CASE("a request is late when it takes longer than nearly all others did") {
  const auto late_after = [](auto latency_of) {
    Latencies latencies(milliseconds(100));
    for (int i = 0; i < 512; ++i) latencies.note(milliseconds(latency_of(i)));
    return latencies.late_after();
  };
  CHECK(late_after([](int) { return 10; }) == milliseconds(100));
  CHECK(late_after([](int) { return 200; }) == milliseconds(300));
  CHECK(late_after([](int i) { return i % 50 == 0 ? 5000 : 200; }) == milliseconds(600));
}

TEST_CASE("reads ahead leave a part of the second requests to those that somebody waits for") {
  Latencies latencies(milliseconds(100));
  unsigned ahead = 0;
  unsigned waiting = 0;
  for (int i = 0; i < 10'000; ++i) {
    latencies.note_sent();
    if (i % 20 == 0 && latencies.may_hedge(false, 1, 64)) ++ahead;
    latencies.note(milliseconds(60));
  }
  CHECK(ahead >= 190);
  CHECK(ahead <= 208);
  while (latencies.may_hedge(true, 1, 64)) ++waiting;
  CHECK(waiting >= 90);
  CHECK(ahead + waiting <= 308);
}

TEST_CASE("parts of a range touch, whatever was guessed") {
  KeyRange range{.folder = "d/", .first = "d/img_00000000", .last = "d/img_00007999", .pages = 8};
  const std::vector<std::string_view> names = {"d/img_00007999", "d/img_0123456789"};
  const std::vector<KeyRange> parts = split(range, names);
  REQUIRE(parts.size() > 10);
  CHECK(range.until == parts.front().after);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    CHECK(parts[i].until == parts[i + 1].after);
    CHECK(parts[i].after < parts[i].until);
  }
  CHECK(parts.back().until.empty());
  CHECK(parts.front().after == "d/img_00008");
  // No half characters: a key of UTF-8 is cut before one, or not at all.
  KeyRange foreign{.folder = "", .first = "\xc3\xa4", .last = "\xc3\xb6", .pages = 8};
  CHECK(split(foreign, names).empty());
}

}  // namespace object_parts_test
