// SPDX-License-Identifier: Apache-2.0
// sharp as its users call it: node sharp_decoder.js MODULES full|crop|shrink FOLDER LIST CROPS T
//
// Reads the files of LIST into memory, then decodes them, T at a time, and prints one JSON line. With `crop`: the crop
// given for each file in CROPS ("left top width height flip"), resized to 224 x 224 and flipped by sharp, normalised
// into planes of float32 by a loop, as JavaScript has no float16. With `shrink`: the whole image is resized and the crop
// taken out of that, because libvips lets libjpeg reduce an image only where nothing comes before the resizing. MODULES: the folder that sharp was installed in.
'use strict';

const fs = require('fs');
const path = require('path');

const [modules, work, folder, listing, cropsFile, threads] = process.argv.slice(2);
const sharp = require(path.resolve(modules, 'node_modules/sharp'));

const SIDE = 224;
const MEAN = [0.485, 0.456, 0.406];
const DEVIATION = [0.229, 0.224, 0.225];

const lines = (file) => fs.readFileSync(file, 'utf8').split('\n').filter((line) => line !== '');
const contents = lines(listing).map((name) => fs.readFileSync(path.join(folder, name)));
const crops = lines(cropsFile).map((line) => line.split(' ').map(Number));

async function full(i) {
  const { info } = await sharp(contents[i]).toColourspace('srgb').raw().toBuffer({ resolveWithObject: true });
  return info.width * info.height;
}

function normalise(pixels) {
  const count = SIDE * SIDE;
  const tensor = new Float32Array(3 * count);
  for (let channel = 0; channel < 3; ++channel) {
    const scale = 1 / (255 * DEVIATION[channel]);
    const shift = -MEAN[channel] / DEVIATION[channel];
    for (let i = 0; i < count; ++i) tensor[channel * count + i] = pixels[3 * i + channel] * scale + shift;
  }
  return tensor;
}

async function crop(i) {
  const [left, top, width, height, flip] = crops[i];
  const image = sharp(contents[i]).extract({ left, top, width, height })
    .resize(SIDE, SIDE, { fit: 'fill', kernel: 'linear' }).flop(flip === 1).toColourspace('srgb');
  const tensor = normalise(await image.raw().toBuffer());
  return tensor.length / 3;
}

async function shrink(i) {
  const [left, top, width, height, flip] = crops[i];
  const whole = await sharp(contents[i]).metadata();
  const size = [Math.round(whole.width * SIDE / width), Math.round(whole.height * SIDE / height)];
  const place = { left: Math.round(left * SIDE / width), top: Math.round(top * SIDE / height) };
  const image = sharp(contents[i]).resize(...size, { fit: 'fill', kernel: 'linear' })
    .extract({ left: Math.min(place.left, size[0] - SIDE), top: Math.min(place.top, size[1] - SIDE), width: SIDE,
      height: SIDE }).flop(flip === 1).toColourspace('srgb');
  const tensor = normalise(await image.raw().toBuffer());
  return tensor.length / 3;
}

// T images are always under way, so that T of libuv's threads are busy.
async function decodeAll(count) {
  const decode = { full, crop, shrink }[work];
  let next = 0;
  let pixels = 0;
  const takeTurns = async () => {
    while (next < count) {
      const made = await decode(next++);
      pixels += made;
    }
  };
  await Promise.all(Array.from({ length: Number(threads) }, takeTurns));
  return pixels;
}

async function main() {
  sharp.concurrency(1); // of libvips, within one image
  sharp.cache(false);
  await decodeAll(Math.min(50, contents.length)); // warms up
  const cpu = process.cpuUsage();
  const start = process.hrtime.bigint();
  const pixels = await decodeAll(contents.length);
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  const { user, system } = process.cpuUsage(cpu);
  console.log(JSON.stringify({ samples: contents.length, seconds, cpu_seconds: (user + system) / 1e6, pixels }));
}

main();
