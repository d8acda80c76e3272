import torch

from models.training.units.quantizer import Quantizer


def filled(n_code=4, width=3, groups=1, count=8.0):
    quantizer = Quantizer(groups, n_code, width)
    quantizer.count.fill_(count)
    quantizer.sum.copy_(torch.randn(groups, n_code, width) * count)
    return quantizer


def test_assigns_the_nearest_code_and_the_first_of_equals():
    quantizer = filled(n_code=3, width=1, count=1.0)
    quantizer.sum.copy_(torch.tensor([[[1.0], [-1.0], [1.0]]]))
    codes, quantized, loss = quantizer(torch.tensor([[[[0.9], [-3.0], [0.0]]]]))
    assert codes.tolist() == [[[0, 1, 0]]]
    assert quantized.flatten().tolist() == [1.0, -1.0, 1.0]
    assert abs(loss.item() - (0.1 ** 2 + 2.0 ** 2 + 1.0) / 3) < 1e-6


def test_gradient_passes_straight_to_the_keys():
    quantizer = filled()
    keys = torch.randn(2, 1, 5, 3, requires_grad=True)
    weight = torch.randn(2, 1, 5, 3)
    _, quantized, _ = quantizer(keys)
    (quantized * weight).sum().backward()
    assert torch.equal(keys.grad, weight)


def test_commitment_pulls_keys_to_their_codes():
    quantizer = filled()
    keys = torch.randn(1, 1, 5, 3, requires_grad=True)
    codes, _, loss = quantizer(keys)
    loss.backward()
    nearest = quantizer.codebook()[0, codes[0, 0]]
    assert torch.allclose(keys.grad[0, 0], 2 * (keys[0, 0] - nearest) / 5)


def test_moving_averages():
    quantizer = filled(n_code=2, width=1)
    sums, counts = quantizer.sum.clone(), quantizer.count.clone()
    keys = torch.tensor([[[[1.0], [2.0], [5.0]]]])
    quantizer.update(keys, torch.tensor([[[0, 0, 1]]]))
    assert torch.allclose(quantizer.sum[0, :, 0], 0.99 * sums[0, :, 0] + 0.01 * torch.tensor([3.0, 5.0]))
    assert torch.allclose(quantizer.count[0], 0.99 * counts[0] + 0.01 * torch.tensor([2.0, 1.0]))


def test_dead_codes_move_onto_keys_and_live_codes_stay():
    quantizer = filled(n_code=4, width=3, count=8.0)
    quantizer.count[0, 2] = 1e-4
    before = quantizer.codebook().clone()
    keys = torch.randn(1, 1, 32, 3)
    revived = quantizer.update(keys, torch.zeros(1, 1, 32, dtype=torch.long), torch.Generator().manual_seed(1))
    after = quantizer.codebook()
    assert revived == 1
    assert (keys[0, 0] - after[0, 2]).abs().amax(-1).min() < 1e-5, "a revived code lies on a key"
    assert torch.allclose(after[0, [1, 3]], before[0, [1, 3]])
    assert quantizer.update(keys, torch.zeros(1, 1, 32, dtype=torch.long)) == 0, "a revived code is not dead at once"


def test_a_new_codebook_is_placed_by_its_first_batch_and_then_used():
    quantizer = Quantizer(2, 8, 3)
    for _ in range(400):
        keys = torch.randn(1, 2, 64, 3)
        codes, _, _ = quantizer(keys)
        quantizer.update(keys, codes)
    codes, _, _ = quantizer(torch.randn(1, 2, 400, 3))
    assert all(len(codes[0, group].unique()) == 8 for group in range(2))


def test_each_dead_code_moves_onto_a_key_of_its_own_head():
    quantizer = filled(n_code=6, width=3, groups=2)
    dead = torch.tensor([[1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 0, 0]], dtype=torch.bool)
    quantizer.count[dead] = 0.0
    quantizer.sum[dead] = 0.0
    keys = torch.randn(2, 2, 16, 3)
    before = quantizer.codebook().clone()
    nobody = torch.zeros(2, 2, 16, 6)  # the averages fade, all alike
    assert quantizer.update_shares(keys, nobody) == 4
    after = quantizer.codebook()
    assert torch.allclose(after[~dead], before[~dead])
    for group, slot in dead.nonzero().tolist():
        distance = (keys[:, group].flatten(0, 1) - after[group, slot]).abs().amax(-1)
        assert distance.min() < 1e-5
    assert torch.allclose(quantizer.count[dead], torch.tensor(32 / 6 / 8))


def test_revival_draws_from_all_of_the_batch():
    picked = set()
    for seed in range(60):
        quantizer = Quantizer(1, 4, 1)
        keys = torch.arange(6.0).reshape(3, 1, 2, 1)
        quantizer.update_shares(keys, torch.zeros(3, 1, 2, 4), torch.Generator().manual_seed(seed))
        picked |= set(quantizer.codebook().flatten().round().int().tolist())
    assert picked == set(range(6))
