// SPDX-License-Identifier: Apache-2.0
#include "headrace/cache/refresher.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "headrace/io/unique_fd.h"

#include "support/temp_dir.h"

namespace refresher_test {

using namespace headrace::cache;
using headrace::io::UniqueFd;
using headrace::test::TempDir;
namespace fs = std::filesystem;

namespace {

// A store on a folder with a refresher that is run round by round.
class Refreshed {
 public:
  Refreshed() {
    for (const char* file : {"a/1.jpg", "a/2.jpg", "b/1.jpg"}) dir_.write(file, "as catalogued");
    fd_.reset(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    store_ = std::move(*Store::open({.source = dir_.path(), .source_fd = fd_.get(), .ram_bytes = 1 << 20}));
    store_->set_change_listener([this](const CatalogChanges& changes) { news_.push_back(changes); });
    refresher_ = std::make_unique<Refresher>(*store_, RefresherOptions{});
    wait_until_idle();
  }

  // What the store was told.
  const std::vector<CatalogChanges>& refresh() {
    news_.clear();
    refresher_->request();
    wait_until_idle();
    return news_;
  }

  [[nodiscard]] std::string content(const char* path) {
    const Result<View> view = store_->read(*store_->catalog().find(path));
    if (!view) return "error: " + std::string(headrace::io::name_of(view.error().code));
    return {reinterpret_cast<const char*>(view->bytes().data()), view->bytes().size()};
  }

  [[nodiscard]] const TempDir& dir() const { return dir_; }
  [[nodiscard]] Refresher::State state() const { return refresher_->state(); }

 private:
  void wait_until_idle() {
    while (refresher_->state().running) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  TempDir dir_;
  UniqueFd fd_;
  std::unique_ptr<Store> store_;
  std::vector<CatalogChanges> news_;  // written by the refresher's thread while it runs
  std::unique_ptr<Refresher> refresher_;
};

}  // namespace

TEST_CASE("a file written in place is served as it is now, once a comparison has seen it") {
  Refreshed source;
  CHECK(source.content("a/1.jpg") == "as catalogued");
  source.dir().write("a/1.jpg", "longer than it was before");
  const auto& news = source.refresh();
  REQUIRE(news.size() == 1);
  CHECK(news[0].changed.size() == 1);
  CHECK(source.content("a/1.jpg") == "longer than it was before");
  CHECK(source.content("a/2.jpg") == "as catalogued");
  CHECK(source.state().changed == 1);
}

TEST_CASE("a comparison without news tells nobody") {
  Refreshed source;
  CHECK(source.refresh().empty());
  source.dir().write("a/1.jpg", "x");
  CHECK(source.refresh().size() == 1);
  CHECK(source.refresh().empty());
  CHECK(source.state().changed == 1);
  CHECK(source.state().rounds == 4);
}

TEST_CASE("a file that vanished is not found, and served again when it is back") {
  Refreshed source;
  fs::rename(source.dir().path() / "b/1.jpg", source.dir().path() / "b/away");
  const auto& news = source.refresh();
  REQUIRE(news.size() == 2);
  CHECK(news[0].attributes.size() == 1);  // the folder was touched
  CHECK(news[1].vanished.size() == 1);
  CHECK(source.state().appeared == 1);
  CHECK(source.content("b/1.jpg") == "error: not found");

  fs::rename(source.dir().path() / "b/away", source.dir().path() / "b/1.jpg");
  CHECK(source.refresh().size() == 2);
  CHECK(source.content("b/1.jpg") == "as catalogued");
  CHECK(source.state().vanished == 0);
  CHECK(source.refresh().empty());
}

TEST_CASE("other names are handed on where a comparison was requested, again where that has to wait, else never") {
  const TempDir folder;
  folder.write("a/1.jpg", "one");
  auto store = std::move(*Store::open({.source = folder.path(), .ram_bytes = 1 << 20}));
  folder.write("a/2.jpg", "two");
  int told = 0;
  const auto on_other_names = [&](const CatalogChanges& changes) -> Status {
    REQUIRE(changes.next != nullptr);
    CHECK(changes.next->find("a/2.jpg").has_value());
    if (++told > 1) return headrace::io::make_error(headrace::io::ErrorCode::kUnsupported, "no");
    return headrace::io::make_error(headrace::io::ErrorCode::kBusy, "not now");
  };
  Refresher refresher(*store, {.again_after = std::chrono::milliseconds(1), .on_other_names = on_other_names});
  const auto wait_for = [&](const auto& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  wait_for([&] { return refresher.state().rounds == 1 && !refresher.state().running; });
  CHECK(told == 0);
  CHECK(refresher.state().appeared == 1);
  CHECK(refresher.state().why_not_shown.empty());
  refresher.request();
  wait_for([&] { return refresher.state().why_not_shown == "no" && !refresher.state().running; });
  CHECK(told == 2);
  CHECK(refresher.state().rounds == 3);
  CHECK(refresher.state().failures == 0);
}

}  // namespace refresher_test
