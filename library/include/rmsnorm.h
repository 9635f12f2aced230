/** \file
 * librmsnorm: RMSNorm of tensors in a GPU's memory, for C99 and C++.
 *
 *     y[row][col] = x[row][col] / sqrt(eps + mean over col of x[row][col]^2)
 *                   * (weight[col] + weight_bias)
 *
 * computed in fp32 and rounded once, to the type of y. rmsnorm_forward_fp8() stores y in 8 bits.
 *
 * Tensors come as DLPack views, which the library reads and does not keep. `x` and `y` are
 *
 * - of 2 dimensions, (rows, hidden), of 3, (batch, heads, head_dim), or of 4, (batch, tokens,
 *   heads, head_dim): the last is normed, and the others may mean something else;
 * - of the same shape, type and device, and on a CUDA device (kDLCUDA);
 * - of float32, float16 or bfloat16;
 * - contiguous in the last dimension, which has at most 2^30 columns. The other strides are free: 0
 *   and negative ones, too, but two rows of y must not overlap, and of two of its dimensions one
 *   has to lie within the other, in whichever order. `strides` may be null: then the tensor is
 *   contiguous;
 * - at any address that is a multiple of the element's size;
 * - the same tensor (in place), or without a common byte;
 * - empty, if you like. Then nothing is launched, and `data` is not looked at.
 *
 * `weight` has elements of float32, float16 or bfloat16, whatever the type of x, and no byte in
 * common with y. Its shape is (hidden), contiguous. For x of 3 or 4 dimensions it may be (heads,
 * head_dim): then each index of x's last dimension but one has a row of its own, at any stride.
 * Null stands for ones, and then weight_bias is 0.
 *
 * Of a tensor of 4 dimensions, neighbours that lie at one distance count as one. Where three remain,
 * the forward functions take a launch for each index of the first, or of the second where that is
 * shorter and no rstd is written; else it is one launch, of two tensors, too.
 *
 * **Streams and devices.** Work is enqueued on `stream`, a stream of the tensors' device, and the
 * function returns; null is CUDA's default stream. The tensors must stay until the stream is done
 * with them. The caller's current device may be another one, and is the same afterwards. No memory
 * of the GPU is allocated and nothing waits, so that calls can be captured in a CUDA graph. From
 * Hopper on, the launch may overlap the end of the kernel before it in the stream; all reads and
 * writes of tensors come after that kernel's end.
 *
 * **Bits.** In the forward functions and in rmsnorm_residual_add(), the bits of a row depend on its
 * values, on hidden, the types, the weight, weight_bias and eps: not on the other rows or their
 * number, nor on strides and addresses. With a rotation, a row is a head of a token, and its
 * cosines and sines count, too. In rmsnorm_forward_fp8(), they also depend on which of its
 * kernels takes the rows: addresses, types and the scaling decide.
 *
 * **Errors.** A function either enqueues all of its work and returns RMSNORM_OK, or enqueues
 * nothing and returns another status; unless CUDA fails between the launches of one call. What goes
 * wrong on the GPU later, as with memory that was freed too early, is for the caller's next CUDA
 * call to report.
 *
 * **Threads.** Any function may be called from any thread at any time. Between two
 * calls, cudaDeviceReset() does no harm.
 */
#ifndef RMSNORM_H
#define RMSNORM_H

#include <dlpack/dlpack.h>
#include <stddef.h>

#define RMSNORM_VERSION_MAJOR 1 /**< Grows when a program has to be changed. */
#define RMSNORM_VERSION_MINOR 6 /**< Grows with each thing that it can do. */
#define RMSNORM_VERSION_PATCH 0 /**< Grows otherwise. */

/* DLPack's codes for types of 8 bits, which its headers name from version 1.1 on. */
#define RMSNORM_FLOAT8_E4M3FN 10 /**< kDLFloat8_e4m3fn */
#define RMSNORM_FLOAT8_E5M2 12   /**< kDLFloat8_e5m2 */
#define RMSNORM_FLOAT8_E8M0 14   /**< kDLFloat8_e8m0fnu: powers of two, without a sign */

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* What CUDA's cudaStream_t and CUstream point to. */

/** What became of a call. rmsnorm_last_error() has the details. */
typedef enum rmsnorm_status {
  RMSNORM_OK = 0,              /**< The work has been enqueued. */
  RMSNORM_BAD_POINTER = 1,     /**< A null pointer where there must be none. */
  RMSNORM_BAD_SHAPE = 2,       /**< A number of dimensions, or a size. */
  RMSNORM_BAD_DTYPE = 3,       /**< A type of elements. */
  RMSNORM_BAD_DEVICE = 4,      /**< A device, or memory that is not the device's. */
  RMSNORM_BAD_STRIDES = 5,     /**< Columns that are not contiguous, rows that overlap. */
  RMSNORM_BAD_ALIGNMENT = 6,   /**< An address that is no multiple of what it needs to be. */
  RMSNORM_BAD_OVERLAP = 7,     /**< Two tensors share memory, and must not. */
  RMSNORM_BAD_VALUE = 8,       /**< A number: eps, weight_bias, workspace_bytes, or of an enum. */
  RMSNORM_CUDA_ERROR = 9,      /**< CUDA could not do what was asked of it. */
  RMSNORM_OUT_OF_MEMORY = 10,  /**< The computer's, not the GPU's. */
  RMSNORM_INTERNAL_ERROR = 11, /**< A mistake of the library. */
  RMSNORM_RANK_MISSING = 12    /**< A rank did not come to a sum, or not to the same one. */
} rmsnorm_status;

/** Which elements of an 8-bit y share a scale, and who chooses it. */
typedef enum rmsnorm_scaling {
  RMSNORM_SCALE_GIVEN = 0, /**< All; the caller. */
  RMSNORM_SCALE_ROW = 1,   /**< Those of a row; the library, by the largest of them. */
  RMSNORM_SCALE_GROUP = 2, /**< Those of 128 columns of a row, or of what is left; likewise. */
  RMSNORM_SCALE_BLOCK = 3  /**< Those of 32 columns of a row, as MXFP8 has them; likewise. */
} rmsnorm_scaling;

/** How often a norm is rounded before it is stored. */
typedef enum rmsnorm_rounding {
  RMSNORM_ROUND_ONCE = 0, /**< From fp32 to what is stored. */
  RMSNORM_ROUND_TWICE = 1 /**< To the type of x first, as where a norm is stored and then read. */
} rmsnorm_rounding;

/** Where the gate of a norm is, silu(z) = z / (1 + exp(-z)). */
typedef enum rmsnorm_gate {
  RMSNORM_GATE_LAST = 0, /**< y = norm(x) * weight * silu(z) */
  RMSNORM_GATE_FIRST = 1 /**< y = norm(x * silu(z)) * weight */
} rmsnorm_gate;

/** Which two columns of a head are turned together, for c from 0 to rotary_dim / 2 - 1. */
typedef enum rmsnorm_rotation {
  RMSNORM_ROTATE_HALVES = 0,     /**< c and c + rotary_dim / 2 */
  RMSNORM_ROTATE_INTERLEAVED = 1 /**< 2 * c and 2 * c + 1 */
} rmsnorm_rotation;

/** Who adds up what ranks have. The bits are the same. */
typedef enum rmsnorm_protocol {
  RMSNORM_PROTOCOL_BY_SIZE = 0, /**< One of the two, by the number of ranks and the bytes of x. */
  RMSNORM_ONE_SHOT = 1,         /**< Each rank adds up all rows. */
  RMSNORM_TWO_SHOT = 2          /**< Each row is added up by one rank, for all. */
} rmsnorm_protocol;

/** The version of the library at run time: major * 10000 + minor * 100 + patch. */
int rmsnorm_version(void);

/** One sentence about this thread's latest call that did not return RMSNORM_OK: which argument,
 * what it is, and what is needed. Empty if there was none; valid until the next such call. */
const char* rmsnorm_last_error(void);

/** Enqueues y = RMSNorm(x) on `stream`.
 *
 * \param x (rows, hidden), (batch, heads, head_dim) or (batch, tokens, heads, head_dim).
 * \param weight (hidden), (heads, head_dim) or null.
 * \param y As x; may be x.
 * \param eps Added to the mean of the squares: finite, 0 or more. With 0, a row of zeros gives NaN.
 * \param weight_bias Added to the weight in fp32: 0, or 1 for models that store weight - 1.
 *     Without a weight it has to be 0.
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_forward(
    const DLTensor* x, const DLTensor* weight, const DLTensor* y, float eps, float weight_bias,
    struct CUstream_st* stream);

/** The same for two tensors in one launch: an attention layer's queries and keys. They have the
 * same type, device and last dimension, and the weights, where there are two, the same type. Where
 * there is one, it is two launches. No output shares a byte with the other tensor or its output.
 *
 * \param q (rows, hidden), (batch, heads, head_dim) or (batch, tokens, heads, head_dim).
 * \param q_weight (hidden), (heads, head_dim) or null.
 * \param q_out As q; may be q.
 * \param k Likewise, its first sizes, and its number of dimensions, being its own.
 * \param k_weight (hidden), (heads, head_dim) or null.
 * \param k_out As k; may be k.
 * \param eps As in rmsnorm_forward().
 * \param weight_bias Of both weights, as in rmsnorm_forward(): 0 if either is null.
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_forward_pair(
    const DLTensor* q, const DLTensor* q_weight, const DLTensor* q_out, const DLTensor* k,
    const DLTensor* k_weight, const DLTensor* k_out, float eps, float weight_bias,
    struct CUstream_st* stream);

/** Enqueues two operations in one: the residual becomes x + residual, and y the RMSNorm of that
 * sum. Both are rounded once: the sum is normed as it is in fp32. The residual has the shape and
 * device of x, float32, float16 or bfloat16 as its own type, as a residual stream in fp32 beside x
 * in bf16, and no byte in common with x, y or weight; two of its rows do not overlap.
 *
 * \param x (rows, hidden), (batch, heads, head_dim) or (batch, tokens, heads, head_dim).
 * \param residual As x, of any type; overwritten with the sum.
 * \param weight (hidden), (heads, head_dim) or null.
 * \param y As x; may be x.
 * \param eps As in rmsnorm_forward().
 * \param weight_bias As in rmsnorm_forward().
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_residual_add(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    float eps, float weight_bias, struct CUstream_st* stream);

/** Enqueues y = RMSNorm(x) / scale, in 8 bits: what a matrix product of 8-bit numbers reads. With a
 * residual, that becomes x + residual first, and y is of that sum, as in rmsnorm_residual_add().
 * Arithmetic is fp32's. Before compute capability 8.9, software converts to 8 bits, to the same
 * codes. With RMSNORM_ROUND_TWICE, the norm is rounded to the type of x, and what follows takes
 * that. A scale that the library chooses is
 *
 *     largest = max over the columns that share it, of |norm[row][col]|
 *     scale = max(min(largest, limit) / most, 1 / (512 * most))
 *
 * where `most` is 448 for float8_e4m3fn and 57344 for float8_e5m2. Elements are multiplied by
 * 1 / scale, rounded to the nearest; what is beyond `most` becomes that, with its sign. A norm that
 * is NaN becomes NaN, and does not count for the largest; of one that is Inf, without a limit, the
 * scale is Inf, the norm NaN and all others of the scale 0.
 *
 * Scales of float8_e8m0fnu are powers of two: that of RMSNORM_SCALE_BLOCK, and that of a group where
 * the tensor is of this type. They are min(largest, limit) / most, rounded up to the next of 2^-127
 * to 2^127; elements are multiplied by one over that.
 *
 * A scale that is given is to be a normal number greater than 0; it lies on the device, and is not
 * looked at before. Where it is NaN, y is NaN. Where it is 0, or so small that its reciprocal is
 * Inf, y is the largest number with the norm's sign, and NaN for a norm of 0. Where it is Inf, y is
 * 0, and NaN for a norm of Inf. A limit of NaN is none, and one of 0 or less gives the smallest
 * scale.
 *
 * If all rows of x, residual, norm and weight begin at multiples of 16 bytes, those of y at
 * multiples of 8 (of 4, if x is float32), if a row of x has at most 32 KiB, in whole 16 bytes, and
 * the weight is float32, of x's type or null, then x is read once, and without a residual the norm
 * is bit for bit rmsnorm_forward()'s. On GPUs with clusters, x is read once up to 256 KiB. Else, and
 * for rows of 128 columns or fewer whose groups have powers of two, one simple kernel reads x two or
 * three times. The bits of a row depend on which of these it is, and not on other rows.
 *
 * \param x (rows, hidden), (batch, heads, head_dim) or (batch, tokens, heads, head_dim).
 * \param residual As x, with its type; overwritten with the sum. Or null.
 * \param weight (hidden), (heads, head_dim) or null.
 * \param y As x, but of float8_e4m3fn or float8_e5m2; written.
 * \param scale Float32. RMSNORM_SCALE_GIVEN: (1), read. Else written: RMSNORM_SCALE_ROW: the sizes
 *     of x but the last, or these and 1; RMSNORM_SCALE_GROUP: the sizes of x but the last, and
 *     (hidden + 127) / 128. Rows and groups are counted in the order of x's indices, whose strides
 *     are those of a contiguous tensor (row order), or the rows lie side by side, and the stride of
 *     the last dimension is the number of rows or more (column order). Grouped matrix products of
 *     Hopper take column order with a stride that is a multiple of 4. What lies between the columns
 *     of scales is left as it is. RMSNORM_SCALE_BLOCK: float8_e8m0fnu or uint8, the sizes of x but
 *     the last, and hidden / 32, in row order; or, of 1 dimension, in the tiles that cuBLAS takes:
 *     one has 128 rows and 4 blocks, in 512 bytes; it begins at a multiple of 16 bytes, and what is
 *     no row's or no block's becomes 0. The scales of groups may be of these types, in row order.
 * \param limit (1), float32: the most that counts as the largest; null: Inf. Null with
 *     RMSNORM_SCALE_GIVEN.
 * \param norm As x, with its type: the norm, rounded once; written. May be x. Null if it is not
 *     wanted.
 * \param scaling Who chooses scales.
 * \param rounding Of the norm.
 * \param eps As in rmsnorm_forward().
 * \param weight_bias As in rmsnorm_forward().
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_forward_fp8(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    const DLTensor* scale, const DLTensor* limit, const DLTensor* norm, rmsnorm_scaling scaling,
    rmsnorm_rounding rounding, float eps, float weight_bias, struct CUstream_st* stream);

/** The forward pass of training: y = RMSNorm(x), and what rmsnorm_backward() needs of it,
 *
 *     rstd[row] = 1 / sqrt(eps + mean over col of x[row][col]^2)
 *
 * For training, no two tensors share a byte, and x has at most 2^30 rows: the product of all sizes
 * but the last. rstd has them in the order of x's indices, wherever they lie.
 *
 * \param x (rows, hidden), (batch, heads, head_dim) or (batch, tokens, heads, head_dim).
 * \param weight (hidden), (heads, head_dim) or null.
 * \param y As x.
 * \param rstd (rows), float32; written.
 * \param eps As in rmsnorm_forward().
 * \param weight_bias As in rmsnorm_forward().
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_forward_rstd(
    const DLTensor* x, const DLTensor* weight, const DLTensor* y, const DLTensor* rstd, float eps,
    float weight_bias, struct CUstream_st* stream);

/** The bytes of memory that rmsnorm_backward() needs besides its tensors. They depend on the shape
 * and the type of x alone.
 *
 * \param x As in rmsnorm_backward().
 * \param bytes Where to write the number. */
rmsnorm_status rmsnorm_backward_workspace_bytes(const DLTensor* x, size_t* bytes);

/** The backward pass. dy says how a loss changes with each element of y; the results say how it
 * changes with each element of x, dx, and of the weight, dweight. With n = x * rstd and
 * g = dy * (weight + weight_bias), computed in fp32 and rounded once:
 *
 *     dx[row][col] = rstd[row] * (g[row][col] - n[row][col] * mean over col of (g * n)[row][col])
 *     dweight[col] = sum over row of dy[row][col] * n[row][col]
 *
 * For a weight of heads, dweight has the sum over the rows of each head. x, dy and dx have strides
 * of their own. dy may be expanded: strides of 0 say that one row stands for several, and in the
 * last dimension that one element stands for all columns.
 *
 * The order of the additions is fixed: the same tensors give the same bits every time. No rows give
 * a dweight of zeros.
 *
 * \param dy As x, and its last stride may be 0.
 * \param x As in rmsnorm_forward_rstd().
 * \param weight (hidden), (heads, head_dim) or null.
 * \param rstd (rows), float32: that of rmsnorm_forward_rstd().
 * \param dx As x, and no two of its rows overlap; written.
 * \param dweight Of the weight's shape and type, contiguous; written. Null if it is not wanted. A
 *     weight of heads has 65535 at most here, and 2^30 elements.
 * \param workspace Memory of the tensors' device, at a multiple of 256 bytes; overwritten.
 * \param workspace_bytes Its size: what the function above says, or more.
 * \param weight_bias As in rmsnorm_forward_rstd().
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_backward(
    const DLTensor* dy, const DLTensor* x, const DLTensor* weight, const DLTensor* rstd,
    const DLTensor* dx, const DLTensor* dweight, void* workspace, size_t workspace_bytes,
    float weight_bias, struct CUstream_st* stream);

/** Enqueues a norm with a gate, as models with a state in place of attention have it: y as
 * rmsnorm_gate says, each weight with weight_bias added. z and y are as x, each with strides of its
 * own, and y may be x. A norm over each of several groups of columns is that of a view of (rows,
 * groups, columns), with a weight (groups, columns).
 *
 * \param x (rows, hidden), (batch, heads, head_dim) or (batch, tokens, heads, head_dim).
 * \param z As x. -Inf gives NaN.
 * \param weight (hidden), (heads, head_dim) or null; of x's type or float32.
 * \param y As x; may be x.
 * \param gate Where the gate is.
 * \param rounding RMSNORM_ROUND_ONCE, or RMSNORM_ROUND_TWICE: what is multiplied by the weight is
 *     first rounded to the type of x, and so is that product, if the weight is of that type. The
 *     gate, and what is normed, stay in fp32.
 * \param eps As in rmsnorm_forward().
 * \param weight_bias As in rmsnorm_forward().
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_forward_gated(
    const DLTensor* x, const DLTensor* z, const DLTensor* weight, const DLTensor* y,
    rmsnorm_gate gate, rmsnorm_rounding rounding, float eps, float weight_bias,
    struct CUstream_st* stream);

/** The bytes of memory that rmsnorm_backward_gated() needs besides its tensors, as
 * rmsnorm_backward_workspace_bytes() says it of the other backward pass. */
rmsnorm_status rmsnorm_backward_gated_workspace_bytes(const DLTensor* x, size_t* bytes);

/** The backward pass of a norm with a gate: how a loss changes with x, z and the weight, if dy says
 * how it changes with y. No two tensors share a byte, x has at most 2^30 rows, of 8192 columns at
 * most. What the forward pass knew of a row is computed again. All is computed in fp32 and rounded
 * once, whatever the forward pass has rounded. The same tensors give the same bits every time.
 *
 * \param dy As x.
 * \param x As in rmsnorm_forward_gated().
 * \param z As x.
 * \param weight (hidden), (heads, head_dim) or null; of x's type or float32.
 * \param dx As x, and no two of its rows overlap; written.
 * \param dz Likewise.
 * \param dweight Of the weight's shape and type, contiguous; written. Null if it is not wanted.
 * \param workspace Memory of the tensors' device, at a multiple of 256 bytes; overwritten.
 * \param workspace_bytes Its size: what the function above says, or more.
 * \param gate As in the forward pass.
 * \param eps Likewise.
 * \param weight_bias Likewise.
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_backward_gated(
    const DLTensor* dy, const DLTensor* x, const DLTensor* z, const DLTensor* weight,
    const DLTensor* dx, const DLTensor* dz, const DLTensor* dweight, void* workspace,
    size_t workspace_bytes, rmsnorm_gate gate, float eps, float weight_bias,
    struct CUstream_st* stream);

/** Enqueues what an attention layer does with its queries and keys before it compares them, in one
 * launch: the norm of each head, and the rotation of its first rotary_dim columns (RoPE). Columns a
 * and b, which rmsnorm_rotation names for each c, are turned by an angle that depends on where in
 * the text the token is. With n as y in rmsnorm_forward():
 *
 *     q_out[token][head][a] = n[a] * cos[position][c] - n[b] * sin[position][c]
 *     q_out[token][head][b] = n[b] * cos[position][c] + n[a] * sin[position][c]
 *
 * where position is positions[token]; other columns of q_out are n. k_out likewise. With a cache, k
 * as it is in k_out, and v as it is, are also stored in the token's slot, slots[token]: place
 * slot % page_size of page slot / page_size. A token with a negative slot is not stored, and all
 * other slots keep their bits.
 *
 * q, k, v and their outputs are of one type and device, with 65536 heads at most. They may be parts
 * of one tensor, in which the heads of q, k and v of a token lie side by side. Their strides are as
 * those of x and y in rmsnorm_forward(), and so are those of the caches, which are outputs. A cache
 * (pages, heads, page_size, head_dim) is passed as a view in which two dimensions are exchanged.
 *
 * What lies in positions and slots is not looked at before the kernel runs. A position that is not
 * in the tables, a slot that is not in the cache and a slot that two tokens have are mistakes of
 * the caller: with the first two, other memory is read or overwritten; with the last, the slot may
 * have parts of both.
 *
 * \param q (tokens, heads, head_dim), with a head_dim of 768 at most.
 * \param q_weight (head_dim), (heads, head_dim) or null; of q's type or float32.
 * \param q_out As q; may be q.
 * \param k (tokens, heads, head_dim), with a number of heads of its own.
 * \param k_weight As q_weight, for the heads of k.
 * \param k_out As k; may be k. Null if k is wanted in the cache alone.
 * \param cos (positions, rotary_dim / 2), float32 or of q's type, its rows at any stride: the
 *     cosines of a position's angles. rotary_dim, from 2 to head_dim, is twice its last size.
 * \param sin As cos, with strides of its own.
 * \param positions (tokens), int32 or int64, contiguous: rows of cos and sin. Null if each token
 *     has the row of its own number.
 * \param v As k, to be stored in v_cache. Null without that.
 * \param k_cache (pages, page_size, heads, head_dim), of q's type, with the heads of k; written.
 *     Null without a cache.
 * \param v_cache As k_cache, with strides of its own; written. Null if v is not to be stored.
 * \param slots (tokens), int32 or int64, contiguous. Null without a cache.
 * \param rotation Which columns are turned together.
 * \param rounding RMSNORM_ROUND_ONCE, or RMSNORM_ROUND_TWICE: the norm is rounded to the type of q
 *     before it is turned, as where a norm is stored and then read.
 * \param eps As in rmsnorm_forward().
 * \param weight_bias Of both weights, as in rmsnorm_forward(): 0 if either is null.
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_forward_rotated(
    const DLTensor* q, const DLTensor* q_weight, const DLTensor* q_out, const DLTensor* k,
    const DLTensor* k_weight, const DLTensor* k_out, const DLTensor* cos, const DLTensor* sin,
    const DLTensor* positions, const DLTensor* v, const DLTensor* k_cache, const DLTensor* v_cache,
    const DLTensor* slots, rmsnorm_rotation rotation, rmsnorm_rounding rounding, float eps,
    float weight_bias, struct CUstream_st* stream);

#define RMSNORM_MOST_RANKS 8             /**< Of a sum. */
#define RMSNORM_MOST_RANK_COLUMNS 16384  /**< Of its rows. */
#define RMSNORM_RANKS_HEADER_BYTES 16384 /**< What a rank's buffer begins with: flags. */

/** As all that follows, measured with two ranks alone.
 *
 * One rank of a group whose tensors are added up: GPUs of one machine that reach each other's
 * memory. */
typedef struct rmsnorm_ranks rmsnorm_ranks;

/** Makes a rank of buffers that the group shares, and makes the flags in its own one zeros. All
 * ranks call it, and wait for each other afterwards, before the first sum. It allocates a few bytes
 * of pinned memory, and waits for the device. The buffers stay the caller's.
 *
 * Sums of one group come one after the other, and on all ranks in the same order: on one stream, or
 * on several that wait for each other. Two that are to run at the same time need two groups.
 *
 * \param buffers Of each rank, in their order, the address at which this process reaches its buffer:
 *     a multiple of 256, of any origin: cudaIpcOpenMemHandle(), cuMemMap(), or cudaMalloc() after
 *     cudaDeviceEnablePeerAccess().
 * \param bytes The size of each: RMSNORM_RANKS_HEADER_BYTES and twice the bytes of the largest x,
 *     its rows in whole 16 bytes; 2^32 at most.
 * \param rank This one's number, from 0 on.
 * \param ranks How many there are, 1 to RMSNORM_MOST_RANKS.
 * \param limit_ms For how long a kernel waits for a peer, in milliseconds: 1 or more.
 * \param created Where to write the pointer; null is written after an error. */
rmsnorm_status rmsnorm_ranks_create(
    void* const* buffers, size_t bytes, int rank, int ranks, unsigned limit_ms,
    rmsnorm_ranks** created);

/** Frees it. No sum may be running. The buffers may be freed when all ranks have done so. */
void rmsnorm_ranks_destroy(rmsnorm_ranks* ranks);

/** RMSNORM_OK, or RMSNORM_RANK_MISSING if a peer was waited for in vain: rmsnorm_last_error() names
 * it, and the call, the first being 0. It does not wait: what was enqueued may still fail. */
rmsnorm_status rmsnorm_ranks_status(const rmsnorm_ranks* ranks);

/** Makes the buffers usable again after RMSNORM_RANK_MISSING. No sum may be running on any rank. All
 * ranks call it, and wait for each other before and afterwards. It waits for the device. */
rmsnorm_status rmsnorm_ranks_reset(rmsnorm_ranks* ranks);

/** Enqueues three operations in one: x, of which each rank has a part, is added up over all ranks,
 * and rounded to its type; then rmsnorm_residual_add(). All ranks call it, with tensors of one shape
 * and type and the same numbers. All of them add in the order of ranks, so that all have the same
 * bits, as alone and in any batch. What of this is not the same on another rank cannot be refused
 * before the launch.
 *
 * If a peer does not come within the limit, or with another shape, the kernel ends: y and the
 * residual become NaN, in this call as far as it has not met its peers, and in all later ones. The
 * next call, and rmsnorm_ranks_status(), return RMSNORM_RANK_MISSING. Calls may be captured in a CUDA
 * graph and replayed, on all ranks equally often; the launch does not overlap the kernel before it.
 *
 * \param x (rows, hidden), with 16384 columns at most, and no more bytes than the buffers are for.
 * \param residual As x, with its type; overwritten with the sum. The same on all ranks.
 * \param weight (hidden) or null; of x's type or float32.
 * \param y As x; may be x.
 * \param ranks The group, as this rank has made it.
 * \param protocol Who adds up.
 * \param eps As in rmsnorm_forward().
 * \param weight_bias As in rmsnorm_forward().
 * \param stream A stream of the tensors' device, or null. */
rmsnorm_status rmsnorm_all_reduce_residual_add(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    rmsnorm_ranks* ranks, rmsnorm_protocol protocol, float eps, float weight_bias,
    struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif
