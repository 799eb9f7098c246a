// A small reverse-mode tape over double matrices: the plain reference for whole layers. It shares no code with the layers (those
// are written forward and backward by hand, in f32), and is itself checked by finite differences (tests/unit/nn/tape_test.cpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace reference {

struct Node {
  std::size_t rows = 0, cols = 0;
  std::vector<double> v, g;  // value and gradient, row-major
  std::function<void()> back;
  double& at(std::size_t i, std::size_t j) { return v[i * cols + j]; }
  double& grad(std::size_t i, std::size_t j) { return g[i * cols + j]; }
};
using Var = std::shared_ptr<Node>;

class Tape {
 public:
  Var make(std::size_t rows, std::size_t cols) {
    auto n = std::make_shared<Node>();
    n->rows = rows, n->cols = cols;
    n->v.assign(rows * cols, 0.0);
    n->g.assign(rows * cols, 0.0);
    order_.push_back(n);
    return n;
  }
  Var leaf(std::size_t rows, std::size_t cols, const std::vector<double>& values) {
    if (values.size() != rows * cols) throw std::logic_error("leaf: size");
    Var n = make(rows, cols);
    n->v = values;
    return n;
  }
  void backward(const Var& scalar) {
    scalar->g.assign(scalar->g.size(), 1.0);
    for (std::size_t i = order_.size(); i-- > 0;)
      if (order_[i]->back) order_[i]->back();
  }

  Var matmul(const Var& a, const Var& b) {
    if (a->cols != b->rows) throw std::logic_error("matmul: shapes");
    Var c = make(a->rows, b->cols);
    for (std::size_t i = 0; i < a->rows; ++i)
      for (std::size_t k = 0; k < a->cols; ++k)
        for (std::size_t j = 0; j < b->cols; ++j) c->at(i, j) += a->at(i, k) * b->at(k, j);
    c->back = [a, b, c = c.get()] {
      for (std::size_t i = 0; i < a->rows; ++i)
        for (std::size_t k = 0; k < a->cols; ++k)
          for (std::size_t j = 0; j < b->cols; ++j) {
            a->grad(i, k) += c->grad(i, j) * b->at(k, j);
            b->grad(k, j) += a->at(i, k) * c->grad(i, j);
          }
    };
    return c;
  }
  Var transpose(const Var& a) {
    Var c = make(a->cols, a->rows);
    for (std::size_t i = 0; i < a->rows; ++i)
      for (std::size_t j = 0; j < a->cols; ++j) c->at(j, i) = a->at(i, j);
    c->back = [a, c = c.get()] {
      for (std::size_t i = 0; i < a->rows; ++i)
        for (std::size_t j = 0; j < a->cols; ++j) a->grad(i, j) += c->grad(j, i);
    };
    return c;
  }
  Var add(const Var& a, const Var& b) { return zip(a, b, [](double x, double y) { return x + y; }, [](double, double) { return 1.0; }, [](double, double) { return 1.0; }); }
  Var mul(const Var& a, const Var& b) { return zip(a, b, [](double x, double y) { return x * y; }, [](double, double y) { return y; }, [](double x, double) { return x; }); }
  Var scale(const Var& a, double f) { return map(a, [f](double x) { return f * x; }, [f](double) { return f; }); }
  Var silu(const Var& a) {
    return map(a, [](double x) { return x / (1 + std::exp(-x)); }, [](double x) {
      const double s = 1 / (1 + std::exp(-x));
      return s * (1 + x * (1 - s));
    });
  }
  Var sigmoid(const Var& a) {
    return map(a, [](double x) { return 1 / (1 + std::exp(-x)); }, [](double x) {
      const double s = 1 / (1 + std::exp(-x));
      return s * (1 - s);
    });
  }
  /// Every row divided by its root mean square, times scale [1, cols].
  Var rmsnorm(const Var& x, const Var& s, double eps) {
    Var y = make(x->rows, x->cols);
    std::vector<double> r(x->rows);
    for (std::size_t i = 0; i < x->rows; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < x->cols; ++j) sum += x->at(i, j) * x->at(i, j);
      r[i] = 1 / std::sqrt(sum / static_cast<double>(x->cols) + eps);
      for (std::size_t j = 0; j < x->cols; ++j) y->at(i, j) = x->at(i, j) * r[i] * s->at(0, j);
    }
    y->back = [x, s, r, y = y.get()] {
      for (std::size_t i = 0; i < x->rows; ++i) {
        double dot = 0;
        for (std::size_t j = 0; j < x->cols; ++j) dot += y->grad(i, j) * s->at(0, j) * x->at(i, j);
        for (std::size_t j = 0; j < x->cols; ++j) {
          s->grad(0, j) += y->grad(i, j) * x->at(i, j) * r[i];
          x->grad(i, j) += r[i] * (y->grad(i, j) * s->at(0, j) - x->at(i, j) * r[i] * r[i] * dot / static_cast<double>(x->cols));
        }
      }
    };
    return y;
  }
  /// Softmax of each row over the columns that `visible(i, j)` admits; the others are exactly 0.
  Var softmax(const Var& a, const std::function<bool(std::size_t, std::size_t)>& visible) {
    Var y = make(a->rows, a->cols);
    for (std::size_t i = 0; i < a->rows; ++i) {
      double top = -1e300, sum = 0;
      for (std::size_t j = 0; j < a->cols; ++j)
        if (visible(i, j)) top = std::max(top, a->at(i, j));
      for (std::size_t j = 0; j < a->cols; ++j)
        if (visible(i, j)) sum += y->at(i, j) = std::exp(a->at(i, j) - top);
      for (std::size_t j = 0; j < a->cols; ++j) y->at(i, j) /= sum;
    }
    y->back = [a, y = y.get()] {
      for (std::size_t i = 0; i < a->rows; ++i) {
        double dot = 0;
        for (std::size_t j = 0; j < a->cols; ++j) dot += y->at(i, j) * y->grad(i, j);
        for (std::size_t j = 0; j < a->cols; ++j) a->grad(i, j) += y->at(i, j) * (y->grad(i, j) - dot);
      }
    };
    return y;
  }
  Var columns(const Var& a, std::size_t begin, std::size_t count) {
    Var y = make(a->rows, count);
    for (std::size_t i = 0; i < a->rows; ++i)
      for (std::size_t j = 0; j < count; ++j) y->at(i, j) = a->at(i, begin + j);
    y->back = [a, begin, count, y = y.get()] {
      for (std::size_t i = 0; i < a->rows; ++i)
        for (std::size_t j = 0; j < count; ++j) a->grad(i, begin + j) += y->grad(i, j);
    };
    return y;
  }
  /// y[i] = a[rows[i]], or zeros where rows[i] < 0.
  Var gather(const Var& a, const std::vector<long>& rows) {
    Var y = make(rows.size(), a->cols);
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t j = 0; rows[i] >= 0 && j < a->cols; ++j) y->at(i, j) = a->at(static_cast<std::size_t>(rows[i]), j);
    y->back = [a, rows, y = y.get()] {
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::size_t j = 0; rows[i] >= 0 && j < a->cols; ++j) a->grad(static_cast<std::size_t>(rows[i]), j) += y->grad(i, j);
    };
    return y;
  }
  Var join_columns(const std::vector<Var>& parts) { return join(parts, false); }
  Var join_rows(const std::vector<Var>& parts) { return join(parts, true); }
  /// Row i times factor [i, 0].
  Var scale_rows(const Var& a, const Var& factor) {
    Var y = make(a->rows, a->cols);
    for (std::size_t i = 0; i < a->rows; ++i)
      for (std::size_t j = 0; j < a->cols; ++j) y->at(i, j) = a->at(i, j) * factor->at(i, 0);
    y->back = [a, factor, y = y.get()] {
      for (std::size_t i = 0; i < a->rows; ++i)
        for (std::size_t j = 0; j < a->cols; ++j) {
          a->grad(i, j) += y->grad(i, j) * factor->at(i, 0);
          factor->grad(i, 0) += y->grad(i, j) * a->at(i, j);
        }
    };
    return y;
  }
  /// Σ of all elements times weights of the same size: a scalar.
  Var dot(const Var& a, const std::vector<double>& w) {
    Var y = make(1, 1);
    for (std::size_t i = 0; i < a->v.size(); ++i) y->v[0] += a->v[i] * w[i];
    y->back = [a, w, y = y.get()] {
      for (std::size_t i = 0; i < a->v.size(); ++i) a->g[i] += y->g[0] * w[i];
    };
    return y;
  }
  /// Rotates the pairs (first[i], second[i]) of columns by angle(row, i) and writes [all firsts, all seconds].
  Var rotate(const Var& a, const std::vector<std::size_t>& first, const std::vector<std::size_t>& second,
             const std::function<double(std::size_t, std::size_t)>& angle) {
    const std::size_t half = first.size();
    Var y = make(a->rows, 2 * half);
    for (std::size_t r = 0; r < a->rows; ++r)
      for (std::size_t i = 0; i < half; ++i) {
        const double c = std::cos(angle(r, i)), s = std::sin(angle(r, i)), x0 = a->at(r, first[i]), x1 = a->at(r, second[i]);
        y->at(r, i) = x0 * c - x1 * s;
        y->at(r, half + i) = x1 * c + x0 * s;
      }
    y->back = [=, y = y.get()] {
      for (std::size_t r = 0; r < a->rows; ++r)
        for (std::size_t i = 0; i < half; ++i) {
          const double c = std::cos(angle(r, i)), s = std::sin(angle(r, i));
          a->grad(r, first[i]) += y->grad(r, i) * c + y->grad(r, half + i) * s;
          a->grad(r, second[i]) += -y->grad(r, i) * s + y->grad(r, half + i) * c;
        }
    };
    return y;
  }
  /// Σ over rows of weight · (lse - l_target + z · lse²): a scalar.
  Var cross_entropy(const Var& logits, const std::vector<int>& targets, const std::vector<double>& weight, double z) {
    Var y = make(1, 1);
    std::vector<double> lse(logits->rows);
    for (std::size_t i = 0; i < logits->rows; ++i) {
      double top = -1e300, sum = 0;
      for (std::size_t j = 0; j < logits->cols; ++j) top = std::max(top, logits->at(i, j));
      for (std::size_t j = 0; j < logits->cols; ++j) sum += std::exp(logits->at(i, j) - top);
      lse[i] = top + std::log(sum);
      y->v[0] += weight[i] * (lse[i] - logits->at(i, static_cast<std::size_t>(targets[i])) + z * lse[i] * lse[i]);
    }
    y->back = [=, y = y.get()] {
      for (std::size_t i = 0; i < logits->rows; ++i)
        for (std::size_t j = 0; j < logits->cols; ++j) {
          const double p = std::exp(logits->at(i, j) - lse[i]);
          const double hot = static_cast<int>(j) == targets[i] ? 1.0 : 0.0;
          logits->grad(i, j) += y->g[0] * weight[i] * (p * (1 + 2 * z * lse[i]) - hot);
        }
    };
    return y;
  }

 private:
  template <class F, class D>
  Var map(const Var& a, F f, D d) {
    Var y = make(a->rows, a->cols);
    for (std::size_t i = 0; i < a->v.size(); ++i) y->v[i] = f(a->v[i]);
    y->back = [a, d, y = y.get()] {
      for (std::size_t i = 0; i < a->v.size(); ++i) a->g[i] += y->g[i] * d(a->v[i]);
    };
    return y;
  }
  template <class F, class DX, class DY>
  Var zip(const Var& a, const Var& b, F f, DX dx, DY dy) {
    if (a->rows != b->rows || a->cols != b->cols) throw std::logic_error("zip: shapes");
    Var y = make(a->rows, a->cols);
    for (std::size_t i = 0; i < a->v.size(); ++i) y->v[i] = f(a->v[i], b->v[i]);
    y->back = [a, b, dx, dy, y = y.get()] {
      for (std::size_t i = 0; i < a->v.size(); ++i) {
        const double ga = y->g[i] * dx(a->v[i], b->v[i]), gb = y->g[i] * dy(a->v[i], b->v[i]);
        a->g[i] += ga;
        b->g[i] += gb;
      }
    };
    return y;
  }
  Var join(const std::vector<Var>& parts, bool by_rows) {
    std::size_t rows = by_rows ? 0 : parts[0]->rows, cols = by_rows ? parts[0]->cols : 0;
    for (const Var& p : parts) (by_rows ? rows : cols) += by_rows ? p->rows : p->cols;
    Var y = make(rows, cols);
    std::size_t r0 = 0, c0 = 0;
    for (const Var& p : parts) {
      for (std::size_t i = 0; i < p->rows; ++i)
        for (std::size_t j = 0; j < p->cols; ++j) y->at(r0 + i, c0 + j) = p->at(i, j);
      (by_rows ? r0 : c0) += by_rows ? p->rows : p->cols;
    }
    y->back = [parts, by_rows, y = y.get()] {
      std::size_t row = 0, col = 0;
      for (const Var& p : parts) {
        for (std::size_t i = 0; i < p->rows; ++i)
          for (std::size_t j = 0; j < p->cols; ++j) p->grad(i, j) += y->grad(row + i, col + j);
        (by_rows ? row : col) += by_rows ? p->rows : p->cols;
      }
    };
    return y;
  }

  std::vector<Var> order_;
};

}  // namespace reference
