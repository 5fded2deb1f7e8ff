def test_a_mask_of_truth_values_says_nothing_of_one_of_numbers() -> None:
    q = td.asarray(np.ones((1, 3, 4), np.float32))
    masks = np.array([[True, False, True]] * 3), np.zeros((3, 3), np.float32)
    for mask in masks:
        node = td.asarray(mask)
        y = (
            td.attention(q, q * 2, q * np.arange(4, dtype=np.float32), node) ** 2
        ).sum()
        wanted = [q] if mask.dtype == bool else [q, node]
        grads = td.grad(y * q.sum(), wanted, unused="zero")
    v = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
    bias = td.asarray(masks[1])
    (g,) = td.grad((td.attention(q, q, td.asarray(v), bias) * v).sum(), [bias])
    assert np.abs(g.numpy()).max() > 0.1 and len(grads) == 2
