// SPDX-License-Identifier: Apache-2.0
#include "headrace/fuse/opens/list_files.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "headrace/io/mutex.h"

#include "support/temp_dir.h"

namespace headrace::fuse::list_files_test {
namespace {

constexpr cache::SampleIndex kAll = 20;

// Twenty photos, and lists that name them from the last to the first.
struct Photos {
  Photos() {
    for (cache::SampleIndex i = kAll; i-- > 0;) {
      dir.write(fmt::format("c/{:04}.jpg", i), "x");
      text += fmt::format("{:04}\n", i);
    }
    for (const char* name : {"train.csv", "notes.md", "lists/one.txt"}) dir.write(name, text);
    dir.write("short.csv", "0001\n");
    for (int i = 0; i < 33; ++i) dir.write(fmt::format("labels/{:04}.txt", i), text);
    store = cache::Store::open({.source = dir.path(), .ram_bytes = 8 << 20}).value();
    lists = std::make_shared<ListFiles>(*store, [this](cache::OrderLearner::SamplesWithin within) {
      io::MutexLock lock(mutex);
      offered.push_back(std::move(within));
      changed.notify_all();
    });
  }
  [[nodiscard]] cache::EntryId entry(const std::string& path) const { return store->catalog().find(path).value(); }
  std::size_t offers() {
    io::MutexLock lock(mutex);
    return offered.size();
  }
  void await_offers(std::size_t count) {
    io::MutexLock lock(mutex);
    while (offered.size() < count) changed.wait(lock);
  }

  headrace::test::TempDir dir;
  std::string text;
  std::unique_ptr<cache::Store> store;
  io::Mutex mutex;
  io::CondVar changed;
  std::vector<cache::OrderLearner::SamplesWithin> offered;
  std::shared_ptr<ListFiles> lists;
};

TEST_CASE("a list that is read is offered once, and again when it has changed") {
  Photos photos;
  for (int i = 0; i < 3; ++i) photos.lists->on_read(photos.entry("train.csv"));
  photos.await_offers(1);
  const std::vector<cache::SampleIndex> samples = photos.offered[0]({.first = 0, .count = kAll});
  REQUIRE(samples.size() == kAll);
  for (cache::SampleIndex i = 0; i < kAll; ++i) CHECK(samples[i] == kAll - 1 - i);
  photos.lists->on_read(photos.entry("lists/one.txt"));
  photos.await_offers(2);
  CHECK(photos.offers() == 2);
  const cache::EntryId entry = photos.entry("train.csv");
  photos.lists->on_changed({&entry, 1});
  photos.lists->on_read(entry);
  photos.await_offers(3);
}

TEST_CASE("a file that has grown since it was listed is not read, and all lists together have a bound") {
  Photos photos;
  const cache::EntryId grown = photos.entry("train.csv");
  photos.dir.write("train.csv", std::string(9 << 20, 'x'));
  REQUIRE(photos.store->look_at(grown).has_value());
  photos.lists->on_read(grown);
  for (std::size_t version = 0; version < 7; ++version) {
    photos.dir.write("lists/one.txt", photos.text + std::string((7 << 20) + version, '\n'));
    const cache::EntryId list = photos.entry("lists/one.txt");
    REQUIRE(photos.store->look_at(list).has_value());
    photos.lists->on_changed({&list, 1});
    photos.lists->on_read(list);
    photos.await_offers(std::min<std::size_t>(version + 1, 4));
  }
  CHECK(photos.offers() == 4);  // of 28 MiB
  CHECK(photos.store->stats().reads == 4);
}

TEST_CASE("what looks like no list is not read, nor one of many side by side, nor any after the end") {
  Photos photos;
  for (const char* path : {"notes.md", "short.csv", "labels/0000.txt", "labels/0032.txt"})
    photos.lists->on_read(photos.entry(path));
  photos.lists->on_read(photos.entry("train.csv"));
  photos.await_offers(1);
  photos.lists->stop();
  photos.lists->on_read(photos.entry("lists/one.txt"));
  CHECK(photos.offers() == 1);
  CHECK(photos.store->stats().reads == 1);  // the others were not asked for
}

}  // namespace
}  // namespace headrace::fuse::list_files_test
