"""What a device learns about one picture."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One object; corners in picture pixels, `score` 0..1."""

    label: str
    class_id: int
    score: float
    x1: float
    y1: float
    x2: float
    y2: float

    def to_json(self) -> dict[str, object]:
        """For `json.dumps`: pixels to a tenth, the score to four places."""
        return {
            "label": self.label,
            "class_id": self.class_id,
            "score": round(self.score, 4),
            "box": [round(side, 1) for side in (self.x1, self.y1, self.x2, self.y2)],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectAnswer:
    """The objects in a picture, best score first."""

    boxes: tuple[Box, ...]

    def to_json(self) -> dict[str, object]:
        """For `json.dumps`."""
        return {"task": "detect", "boxes": [box.to_json() for box in self.boxes]}

    def __repr__(self) -> str:
        return f"<DetectAnswer {_listed([f'{box.label} {box.score:.2f}' for box in self.boxes])}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyAnswer:
    """The likeliest labels of a picture with their probabilities, best first; none when there was
    nothing of interest to label."""

    top: tuple[tuple[str, float], ...]

    def to_json(self) -> dict[str, object]:
        """For `json.dumps`."""
        ranked = [{"label": label, "probability": round(share, 4)} for label, share in self.top]
        return {"task": "classify", "top": ranked}

    def __repr__(self) -> str:
        return f"<ClassifyAnswer {_listed([f'{label} {share:.2f}' for label, share in self.top])}>"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown}, {len(names) - 5} more" if len(names) > 5 else shown or "nothing"
