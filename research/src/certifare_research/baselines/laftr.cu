// LAFTR's training with the published opponent: one block of threads trains one network, epoch by epoch.
//
// A framework spends some sixty operations of microseconds each on a step of a network this small. Here weights and
// activations of a network stay in a multiprocessor's shared memory, and a step is a sequence of loops that its threads
// share. Columns of zeros and ones come as lists of the ones; their weights are brought up to date (Adam moves a weight
// without a gradient, too) when a record needs them next.
//
// The same text is C++ for one thread, which is how it is tested: FOR shares a loop among threads, SYNC waits for all.

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
#define ANYWHERE __host__ __device__
#define KERNEL template <int H, int Z, int N> __global__ void __launch_bounds__(256, 2)
#define FOR(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)
#define SYNC __syncthreads()
DEVICE uint64_t fetch_or(uint64_t* at, uint64_t bit) {
  return atomicOr(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(bit));
}
DEVICE int fetch_add(int* at, int n) { return atomicAdd(at, n); }
DEVICE int first_bit(uint64_t mask) { return __ffsll(static_cast<long long>(mask)) - 1; }
#else
#define DEVICE static inline
#define ANYWHERE
#define KERNEL template <int H, int Z, int N> static void
#define FOR(i, n) for (int i = 0; i < (n); ++i)
#define SYNC
DEVICE uint64_t fetch_or(uint64_t* at, uint64_t bit) { uint64_t old = *at; *at |= bit; return old; }
DEVICE int fetch_add(int* at, int n) { int old = *at; *at += n; return old; }
DEVICE int first_bit(uint64_t mask) { return __builtin_ctzll(mask); }
#endif

constexpr int B = 64;  // records in a batch: as many as a mask has bits
constexpr float BETA1 = 0.9f, BETA2 = 0.999f, EPS = 1e-8f, SLOPE = 0.2f;

struct Problem {
  // Records: (n, dense) numbers, (n, ones) numbers of the columns that are one (-1: none), label and group.
  const float* numbers;
  const int32_t* columns;
  const float* y;
  const float* s;
  // An epoch: (steps, B) records, and how many steps were taken before it.
  const int32_t* rows;
  // Weights, and Adam's two moments behind them: (networks, 3, small), (networks, 3, width, H).
  float* small;
  float* wide;
  int32_t* last;       // (networks, width): the step at which a column's weights are up to date
  const float* g;      // (networks)
  const float* rates;  // (known, 2): Adam's corrections of the first steps; later ones are the last
  float share0, share1;
  int dense, ones, width, steps, before, known;
};

// Where a network's small weights are: those of the dense columns, then layer by layer weights and bias.
template <int H, int Z, int N> struct Places {
  int dense, b1, w2, b2, c1, cb1, c2, cb2, a1, ab1, a2, ab2, end;
  ANYWHERE explicit Places(int columns) {
    dense = 0;
    b1 = columns * H;
    w2 = b1 + H;
    b2 = w2 + H * Z;
    c1 = b2 + Z;
    cb1 = c1 + Z * N;
    c2 = cb1 + N;
    cb2 = c2 + N;
    a1 = cb2 + 1;
    ab1 = a1 + Z * N;
    a2 = ab1 + N;
    ab2 = a2 + N;
    end = ab2 + 1;
  }
};

DEVICE float leaky(float x) { return x > 0.f ? x : SLOPE * x; }
DEVICE float slope(float activated) { return activated > 0.f ? 1.f : SLOPE; }
DEVICE float sign(float x) { return static_cast<float>((x > 0.f) - (x < 0.f)); }

struct Rate { float length, root; };

DEVICE Rate rate_of(const Problem& p, int step) {
  int at = (step < p.known ? step : p.known) - 1;
  return {p.rates[2 * at], p.rates[2 * at + 1]};
}

DEVICE float moved(float w, float m, float v, Rate rate) {
  return w - rate.length * m / (sqrtf(v) * rate.root + EPS);
}

// One of Adam's steps on a weight.
DEVICE void adam(float* w, float* moments, int64_t count, int64_t at, float gradient, Rate rate) {
  float m = BETA1 * moments[at] + (1.f - BETA1) * gradient;
  float v = BETA2 * moments[count + at] + (1.f - BETA2) * gradient * gradient;
  moments[at] = m;
  moments[count + at] = v;
  w[at] = moved(w[at], m, v, rate);
}

// The steps of a weight that no record touched since: as if its gradient had been zero.
DEVICE void catch_up(const Problem& p, float* wide, int64_t block, int64_t at, int from, int to) {
  float w = wide[at], m = wide[block + at], v = wide[2 * block + at];
  for (int step = from + 1; step <= to; ++step) {
    m *= BETA1;
    v *= BETA2;
    float next = moved(w, m, v, rate_of(p, step));
    if (next == w) {  // later steps are smaller still
      m *= powf(BETA1, static_cast<float>(to - step));
      v *= powf(BETA2, static_cast<float>(to - step));
      break;
    }
    w = next;
  }
  wide[at] = w;
  wide[block + at] = m;
  wide[2 * block + at] = v;
}

// out[b][j] (+)= bias[j] + sum over k of in[b][k] w[k][j]; tiles of four records and two columns.
template <int J, bool ACTIVATED>
DEVICE void forward(float* out, int ldo, const float* in, int ldi, const float* w, const float* bias, int K) {
  constexpr int T = (J + 1) / 2;
  FOR(tile, T * (B / 4)) {
    int j = tile % T, b = tile / T * 4, j2 = j + T < J ? j + T : j;
    float sum[4][2];
    for (int r = 0; r < 4; ++r) { sum[r][0] = bias[j]; sum[r][1] = bias[j2]; }
#pragma unroll 4
    for (int k = 0; k < K; ++k) {
      float w0 = w[k * J + j], w1 = w[k * J + j2];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float x = in[(b + r) * ldi + k];
        sum[r][0] += x * w0;
        sum[r][1] += x * w1;
      }
    }
    for (int r = 0; r < 4; ++r) {
      out[(b + r) * ldo + j] = ACTIVATED ? leaky(sum[r][0]) : sum[r][0];
      out[(b + r) * ldo + j2] = ACTIVATED ? leaky(sum[r][1]) : sum[r][1];
    }
  }
}

// din[b][k] (+)= sum over j of dout[b][j] w[k][j], times the slope at what the layer below gave.
template <int J, int K, bool ADD, bool SLOPED>
DEVICE void backward(float* din, int ldd, const float* dout, int ldo, const float* w, const float* below, int ldb) {
  constexpr int T = (K + 1) / 2;
  FOR(tile, T * (B / 4)) {
    int k = tile % T, b = tile / T * 4, k2 = k + T < K ? k + T : k;
    float sum[4][2] = {};
#pragma unroll 4
    for (int i = 0, j = k % J; i < J; ++i, j = j + 1 < J ? j + 1 : 0) {  // threads begin at different banks
      float w0 = w[k * J + j], w1 = w[k2 * J + j];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float d = dout[(b + r) * ldo + j];
        sum[r][0] += d * w0;
        sum[r][1] += d * w1;
      }
    }
    for (int r = 0; r < 4; ++r)
      for (int c = 0; c < (k2 == k ? 1 : 2); ++c) {
        int at = (b + r) * ldd + (c ? k2 : k);
        float d = sum[r][c] + (ADD ? din[at] : 0.f);
        din[at] = SLOPED ? d * slope(below[(b + r) * ldb + (c ? k2 : k)]) : d;
      }
  }
}

// Adam on w[k][j] with the gradient sum over b of in[b][k] dout[b][j]; on the bias with the sum of dout.
template <int J>
DEVICE void update(float* small, float* moments, int count, int w, int bias, const float* in, int ldi, const float* dout,
                   int ldo, int K, Rate rate) {
  constexpr int T = (J + 1) / 2;
  FOR(tile, T * ((K + 4) / 4)) {  // the bias is the row behind the last
    int j = tile % T, k = tile / T * 4, j2 = j + T < J ? j + T : j;
    float sum[4][2] = {};
#pragma unroll 4
    for (int b = 0; b < B; ++b) {
      float d0 = dout[b * ldo + j], d1 = dout[b * ldo + j2];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float x = k + r < K ? in[b * ldi + k + r] : 1.f;
        sum[r][0] += x * d0;
        sum[r][1] += x * d1;
      }
    }
    for (int r = 0; r < 4 && k + r <= K; ++r)
      for (int c = 0; c < (j2 == j ? 1 : 2); ++c)
        adam(small, moments, count, (k + r < K ? w + (k + r) * J : bias) + (c ? j2 : j), sum[r][c], rate);
  }
}

// The last layer of a head: its logits in four parts, then the gradient of what it loses.
template <int N> DEVICE void logits(float* parts, const float* hidden, int ld, const float* w) {
  FOR(i, 4 * B) {
    int b = i / 4, q = i % 4;
    float sum = 0.f;
    for (int j = q; j < N; j += 4) sum += hidden[b * ld + j] * w[j];
    parts[i] = sum;
  }
}

DEVICE float error_slope(const float* parts, int b, float bias, float truth) {
  float logit = bias + ((parts[4 * b] + parts[4 * b + 1]) + (parts[4 * b + 2] + parts[4 * b + 3]));
  float p = 1.f / (1.f + expf(-logit));
  return sign(p - truth) * p * (1.f - p);
}

// hidden layer's gradient from the head's, then Adam on the head's last layer.
template <int N>
DEVICE void head_gradient(float* dhidden, const float* hidden, int ld, const float* w, const float* dlogit) {
  FOR(i, B * N) {
    int b = i / N, j = i % N;
    dhidden[b * ld + j] = dlogit[b] * w[j] * slope(hidden[b * ld + j]);
  }
}

template <int N>
DEVICE void update_head(float* small, float* moments, int count, int w, const float* hidden, int ld, const float* dlogit,
                        Rate rate) {
  FOR(j, N + 1) {  // the bias follows the weights
    float sum = 0.f;
    for (int b = 0; b < B; ++b) sum += dlogit[b] * (j < N ? hidden[b * ld + j] : 1.f);
    adam(small, moments, count, w + j, sum, rate);
  }
}

// First layer: dense columns, then the weights of those that are one.
template <int H>
DEVICE void first_layer(const Problem& p, float* h, int ldh, const float* x, int ldx, const int* ones, const float* wide,
                        const float* w, const float* bias) {
  forward<H, false>(h, ldh, x, ldx, w, bias, p.dense);
  SYNC;
  FOR(i, B * H) {
    int b = i / H, j = i % H;
    float sum = h[b * ldh + j];
    for (int c = 0; c < p.ones; ++c) {
      int column = ones[b * p.ones + c];
      if (column >= 0) sum += wide[column * H + j];
    }
    h[b * ldh + j] = leaky(sum);
  }
  SYNC;
}

// How many floats of shared memory a block needs.
template <int H, int Z, int N> int memory_of(const Problem& p) {
  constexpr int LH = H | 1, LZ = Z | 1, LN = N | 1;
  int both = 2 * B * LN > B * LH ? 2 * B * LN : B * LH;
  int floats = Places<H, Z, N>(p.dense).end + B * ((p.dense | 1) + LH + 2 * LZ + 8 + 4) + both;
  return floats + B * p.ones + 3 * p.width + 1;
}

KERNEL train(Problem p, int net, float* memory) {
#ifdef __CUDACC__
  extern __shared__ float4 shared[];
  memory = reinterpret_cast<float*>(shared);
  net = blockIdx.x;
#endif
  constexpr int LH = H | 1, LZ = Z | 1, LN = N | 1;  // odd strides: records side by side are in different banks
  const Places<H, Z, N> at(p.dense);
  const int ldx = p.dense | 1;
  uint64_t* masks = reinterpret_cast<uint64_t*>(memory);  // column → which records of the batch have it
  int* listed = reinterpret_cast<int*>(memory + 2 * p.width);  // columns that any record has
  int* how_many = listed + p.width;
  int* ones = how_many + 1;
  float* small = reinterpret_cast<float*>(ones + B * p.ones);
  float* x = small + at.end;
  float* h = x + B * ldx;
  float* z = h + B * LH;
  float* dz = z + B * LZ;
  float* c = dz + B * LZ;  // the classifier's hidden layer; when it is not needed, gradients
  float* a = c + B * LN;   // the auditor's, likewise
  float* dh = c;           // in the place of both
  float* parts = c + (2 * B * LN > B * LH ? 2 * B * LN : B * LH);
  float* more_parts = parts + 4 * B;
  float* y = more_parts + 4 * B;
  float* s = y + B;
  float* dy = s + B;
  float* ds = dy + B;

  const int count = at.end;
  float* kept = p.small + static_cast<int64_t>(net) * 3 * count;
  float* moments = kept + count;
  const int64_t block = static_cast<int64_t>(p.width) * H;
  float* wide = p.wide + net * 3 * block;
  int32_t* last = p.last + static_cast<int64_t>(net) * p.width;
  const float g = p.g[net];

  FOR(i, count) small[i] = kept[i];
  FOR(i, p.width) masks[i] = 0;
  FOR(i, 1) *how_many = 0;
  SYNC;
  for (int step = 0; step < p.steps; ++step) {
    const int now = p.before + step + 1;
    const Rate rate = rate_of(p, now);
    const int32_t* rows = p.rows + static_cast<int64_t>(step) * B;
    FOR(i, B * p.dense) x[i / p.dense * ldx + i % p.dense] = p.numbers[static_cast<int64_t>(rows[i / p.dense]) * p.dense + i % p.dense];
    FOR(i, B) {
      y[i] = p.y[rows[i]];
      s[i] = p.s[rows[i]];
    }
    FOR(i, B * p.ones) {
      int b = i / p.ones, column = p.columns[static_cast<int64_t>(rows[b]) * p.ones + i % p.ones];
      ones[i] = column;
      if (column >= 0 && !fetch_or(masks + column, uint64_t(1) << b)) listed[fetch_add(how_many, 1)] = column;
    }
    SYNC;
    const int columns = *how_many;
    FOR(i, columns * H) {
      int column = listed[i / H], from = last[column], to = now - 1;
      if (from < to) catch_up(p, wide, block, static_cast<int64_t>(column) * H + i % H, from, to);
    }
    SYNC;

    // Encoder and classifier: down the errors of the classifier, up those of the auditor.
    first_layer<H>(p, h, LH, x, ldx, ones, wide, small + at.dense, small + at.b1);
    forward<Z, false>(z, LZ, h, LH, small + at.w2, small + at.b2, H);
    SYNC;
    forward<N, true>(c, LN, z, LZ, small + at.c1, small + at.cb1, Z);
    forward<N, true>(a, LN, z, LZ, small + at.a1, small + at.ab1, Z);
    SYNC;
    logits<N>(parts, c, LN, small + at.c2);
    logits<N>(more_parts, a, LN, small + at.a2);
    SYNC;
    FOR(b, B) {
      dy[b] = error_slope(parts, b, small[at.cb2], y[b]) / (3 * B);
      ds[b] = -g * error_slope(more_parts, b, small[at.ab2], s[b]) / (3 * B * (s[b] > 0.5f ? p.share1 : p.share0));
    }
    SYNC;
    head_gradient<N>(a, a, LN, small + at.a2, ds);
    SYNC;
    backward<N, Z, false, false>(dz, LZ, a, LN, small + at.a1, nullptr, 0);
    SYNC;
    head_gradient<N>(a, c, LN, small + at.c2, dy);
    SYNC;
    backward<N, Z, true, false>(dz, LZ, a, LN, small + at.c1, nullptr, 0);
    SYNC;
    update_head<N>(small, moments, count, at.c2, c, LN, dy, rate);
    update<N>(small, moments, count, at.c1, at.cb1, z, LZ, a, LN, Z, rate);
    SYNC;
    backward<Z, H, false, true>(dh, LH, dz, LZ, small + at.w2, h, LH);
    SYNC;
    update<Z>(small, moments, count, at.w2, at.b2, h, LH, dz, LZ, H, rate);
    update<H>(small, moments, count, at.dense, at.b1, x, ldx, dh, LH, p.dense, rate);
    FOR(i, columns * H) {
      int column = listed[i / H], j = i % H;
      float gradient = 0.f;
      for (uint64_t mask = masks[column]; mask; mask &= mask - 1) gradient += dh[first_bit(mask) * LH + j];
      adam(wide, wide + block, block, static_cast<int64_t>(column) * H + j, gradient, rate);
    }
    SYNC;

    // The auditor: down its errors on the new codes.
    first_layer<H>(p, h, LH, x, ldx, ones, wide, small + at.dense, small + at.b1);
    forward<Z, false>(z, LZ, h, LH, small + at.w2, small + at.b2, H);
    SYNC;
    forward<N, true>(a, LN, z, LZ, small + at.a1, small + at.ab1, Z);
    SYNC;
    logits<N>(parts, a, LN, small + at.a2);
    SYNC;
    FOR(b, B) ds[b] = g * error_slope(parts, b, small[at.ab2], s[b]) / (3 * B * (s[b] > 0.5f ? p.share1 : p.share0));
    SYNC;
    head_gradient<N>(c, a, LN, small + at.a2, ds);
    SYNC;
    update_head<N>(small, moments, count, at.a2, a, LN, ds, rate);
    update<N>(small, moments, count, at.a1, at.ab1, z, LZ, c, LN, Z, rate);
    FOR(i, columns) {
      last[listed[i]] = now;
      masks[listed[i]] = 0;
    }
    FOR(i, 1) *how_many = 0;
    SYNC;
  }
  FOR(i, count) kept[i] = small[i];
}

// Bring every column's weights up to date.
KERNEL settle(Problem p, int net) {
#ifdef __CUDACC__
  net = blockIdx.x;
#endif
  const int64_t block = static_cast<int64_t>(p.width) * H;
  float* wide = p.wide + net * 3 * block;
  int32_t* last = p.last + static_cast<int64_t>(net) * p.width;
  FOR(i, p.width * H) catch_up(p, wide, block, i, last[i / H], p.before);
  SYNC;
  FOR(i, p.width) last[i] = p.before;
}

template <int H, int Z, int N> int epoch_of(Problem p, int networks, void* stream) {
  int floats = memory_of<H, Z, N>(p);
#ifdef __CUDACC__
  auto queue = static_cast<cudaStream_t>(stream);
  if (p.steps) {
    cudaFuncSetAttribute(train<H, Z, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, 4 * floats);
    train<H, Z, N><<<networks, 256, 4 * floats, queue>>>(p, 0, nullptr);
  } else {
    settle<H, Z, N><<<networks, 256, 0, queue>>>(p, 0);
  }
  return cudaGetLastError();
#else
  float* memory = new float[floats + 2];
  for (int net = 0; net < networks; ++net)
    if (p.steps) train<H, Z, N>(p, net, memory); else settle<H, Z, N>(p, net);
  delete[] memory;
  return 0;
#endif
}

// Train all networks for an epoch, or with no steps bring their weights up to date. -1: no such sizes.
extern "C" int laftr(Problem p, int hidden, int size, int narrow, int networks, void* stream) {
  if (hidden == 100 && narrow == 50 && size == 32) return epoch_of<100, 32, 50>(p, networks, stream);
  if (hidden == 100 && narrow == 50 && size == 8) return epoch_of<100, 8, 50>(p, networks, stream);
  if (hidden == 20 && narrow == 20 && size == 32) return epoch_of<20, 32, 20>(p, networks, stream);
  if (hidden == 20 && narrow == 20 && size == 8) return epoch_of<20, 8, 20>(p, networks, stream);
  return -1;
}
