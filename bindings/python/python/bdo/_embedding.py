"""A model as a transformer of scikit-learn."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, TransformerMixin
except ImportError as error:  # pragma: no cover
    raise ImportError("bdo.Embedding needs scikit-learn: pip install scikit-learn") from error

from ._cohort import Cohort
from ._errors import DataError
from ._folder import PathLike
from ._model import Model, load
from ._series import FloatArray

_SCANS = "expected scans (a list of frames x regions, or scans x frames x regions)"


class Embedding(TransformerMixin, BaseEstimator):
    """Scans in, features of a frozen model out. There is nothing to fit.

    ``model`` is a :class:`bdo.Model` or the path of one. A row of ``X`` is a scan: a list of frames x regions, a 3-D array, a
    list of data frames or a :class:`bdo.Cohort`.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.linear_model import LogisticRegression
    >>> pipe = make_pipeline(bdo.Embedding(model_folder, tr=2.0, regions=names), LogisticRegression())
    >>> pipe.fit([series, -series, 2 * series], [0, 1, 0]).predict([series]).shape
    (1,)
    """

    def __init__(
        self,
        model: "Model | PathLike | None" = None,
        *,
        tr: Any = None,
        regions: Optional[Sequence[str]] = None,
        pooling: str = "mean",
        strict: bool = False,
    ) -> None:
        self.model = model
        self.tr = tr
        self.regions = regions
        self.pooling = pooling
        self.strict = strict

    def fit(self, X: Any = None, y: Any = None) -> "Embedding":
        """Reads the model and learns nothing from ``X``."""
        if self.model is None:
            raise DataError("model: expected a bdo.Model or the path of one, found none")
        if hasattr(X, "tocsr"):
            raise DataError(f"X: {_SCANS}, found a sparse matrix")
        self.model_ = self.model if isinstance(self.model, Model) else load(self.model)
        self.n_features_out_ = self.model_.feature_width(self.pooling)
        return self

    def transform(self, X: Any) -> FloatArray:
        """One row of features per scan."""
        if not hasattr(self, "model_"):
            self.fit()
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype != object:
            raise DataError(f"X: {_SCANS}, found one array")
        if isinstance(X, Cohort):
            return self.model_.embed(X, pooling=self.pooling, strict=self.strict)
        return self.model_.embed(X, tr=self.tr, regions=self.regions, pooling=self.pooling, strict=self.strict)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """``bdo0``, ``bdo1``, ..."""
        if not hasattr(self, "model_"):
            self.fit()
        return np.asarray([f"bdo{i}" for i in range(self.n_features_out_)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.requires_fit = False
        tags.no_validation = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
