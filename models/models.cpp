#include "models/model.hpp"

#include "base/error.hpp"
#include "models/moe_transformer/moe_transformer.hpp"

namespace kvant {

Model::~Model() = default;

std::unique_ptr<Model> make_model(const config::ModelSettings& settings) {
  switch (settings.decoder_block) {
    case config::DecoderBlock::deepseek: return std::make_unique<MoeTransformer>(settings);
  }
  fail("No model belongs to this model.decoder_block.");
}

}  // namespace kvant
