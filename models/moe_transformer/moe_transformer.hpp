// The DeepSeek-V2/V3 family: embedding, dense layers, mixture-of-experts layers, final norm, untied logits projection, and
// multi-token prediction modules that share embedding and logits projection (DeepSeek-V3, arXiv 2412.19437, section 2.2; the
// reference's form: own final norm per module, embedding half first in the 2E -> E projection).
#pragma once

#include "models/model.hpp"
#include "nn/block.hpp"

namespace kvant {

/// One module of multi-token prediction.
struct MtpModule {
  nn::RmsNorm embedding_norm, hidden_norm, final_norm;
  nn::Linear projection;  ///< [2E, E]
  nn::DecoderLayer layer;

  void build(const nn::Builder& builder, int number);
};

struct MtpSaved {
  TensorView embedded, embedded_rstd, hidden_rstd, joined, u, h;
  Operand joined_operand;
  nn::BlockSaved layer;
};

class MoeTransformer final : public Model {
 public:
  explicit MoeTransformer(const config::ModelSettings& settings);
  void allocate(StepContext& ctx) override;
  void train(StepContext& ctx, const ModelBatch& batch, const LossScales& scales, const LossSums& sums) override;
  void evaluate(StepContext& ctx, const ModelBatch& batch, const LossSums& sums) override;
  void end_step(StepContext& ctx) override;
  const std::vector<ExpertLoad>& expert_loads() const override { return loads_; }

 private:
  struct Head {
    const nn::RmsNorm* norm;
    MatmulSite* site;
    std::string name;
  };
  struct HeadTask {
    TensorView hidden, targets, mask, gradient;  ///< gradient empty: evaluation
    float grad_scale = 0;
    int sum = 0;  ///< place in LossSums::values
    float z_loss = 0;
  };
  nn::Balance balance(float auxiliary, const LossSums& sums) const;
  void embed(StepContext& ctx, const TensorView& ids, const TensorView& y, const LossSums& sums) const;
  void head(StepContext& ctx, const Head& head, const HeadTask& task, const LossSums& sums) const;
  void forward_layers(StepContext& ctx, const nn::Sequence& seq, const nn::Balance& balance);
  void backward_layers(StepContext& ctx, const nn::Sequence& seq, const nn::Balance& balance, const TensorView& g);
  void mtp_forward(StepContext& ctx, const nn::Sequence& seq, const nn::Balance& balance, const ModelBatch::Ahead& ahead,
                   const TensorView& previous, const MtpModule& module, MtpSaved& saved, const LossSums& sums) const;
  void mtp_backward(StepContext& ctx, const nn::Sequence& seq, const nn::Balance& balance, const ModelBatch::Ahead& ahead,
                    const TensorView& previous, const MtpModule& module, const MtpSaved& saved, const TensorView& g,
                    const TensorView& g_previous) const;
  void run(StepContext& ctx, const ModelBatch& batch, const LossScales* scales, const LossSums& sums);
  nn::Sequence with_rope(const nn::Sequence& seq) const;

  config::ModelSettings settings_;
  DType dtype_;
  nn::Param embedding_;
  std::vector<std::unique_ptr<nn::DecoderLayer>> layers_;
  nn::RmsNorm decoder_norm_;
  nn::Linear logits_;
  std::vector<std::unique_ptr<MtpModule>> mtp_;
  std::vector<std::unique_ptr<MatmulSite>> mtp_logits_;  ///< the shared projection is one more op for every module
  std::vector<ExpertLoad> loads_;
  std::vector<nn::Moe*> moe_layers_;

  TensorView rope_frequency_;
  std::vector<TensorView> hidden_;  ///< input of layer l; the last is the decoder's output before its norm
  std::vector<nn::BlockSaved> saved_;
  std::vector<MtpSaved> mtp_saved_;
};

}  // namespace kvant
